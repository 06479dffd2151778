//! The ledger's actions: pure decisions on our own documents, committed with the step that makes them, exactly once.
//!
//! Who needs a range ("what is free?", "who waits?", "what does the tenant own?") reads a head document that every
//! change of the range rewrites: [`Pool`](crate::tenancy::Pool), [`Waitlist`](crate::tenancy::Waitlist),
//! [`Holding`](crate::tenancy::Holding). Documents read become conditions of the commit, so two decisions that cannot
//! both hold never both commit.

mod candidates;
pub(crate) mod capacity_waitlist;
mod cluster_keys;
pub mod codes;
mod evaluate_request;
pub(crate) mod node_claim;
mod node_replacement;
pub(crate) mod pool_index;
pub(crate) mod quotas;
mod tenant_registration;

pub use crate::ledger::candidates::{candidates, choose};
pub use crate::ledger::capacity_waitlist::{ExtendWait, JoinWaitlist, Joined, LeaveWaitlist, waiting};
pub(crate) use crate::ledger::evaluate_request::propose;
pub use crate::ledger::evaluate_request::{Evaluate, Evaluated, facts};
pub use crate::ledger::node_claim::{Claim, ClaimNodes, ClaimedNode, PrepareNodes, ReleaseClaim, Released};
pub use crate::ledger::node_replacement::{ClaimReplacements, QuarantineNodes};
pub use crate::ledger::tenant_registration::{ActivateTenant, RegisterTenant, UnregisterTenant};
pub use crate::quota_change::ledger::capacity_hold::{
    GrantQuota, HoldCapacity, PrepareHeld, QuarantineHeld, ReleaseCapacity,
};
pub(crate) use crate::quota_change::ledger::evaluate_change::write_line;
pub use crate::quota_change::ledger::evaluate_change::{EvaluateChange, change_facts};
pub use crate::quota_change::ledger::lower_quota::{
    CheckUse, ExcessMeasured, LowerQuota, MeasureExcess, RestoreQuota, SettleDecrease,
};
pub use cluster_keys::{
    IssueClusterKey, Issued, KEY_ORPHANED, KEYS_OVERLAP, RevokeClusterKey, Succession, revoke_cluster_key,
    rotate_cluster_key,
};
pub use quotas::{ClearQuotas, SetQuotas};
pub(crate) use quotas::{freeze, thaw};
