//! The ledger's actions: pure decisions on our own documents, committed with the step that makes them, exactly once.
//!
//! Who needs a range ("what is free?", "who waits?", "what does the tenant own?") reads a head document that every
//! change of the range rewrites: [`Pool`](crate::tenancy::Pool), [`Waitlist`](crate::tenancy::Waitlist),
//! [`Holding`](crate::tenancy::Holding). Documents read become conditions of the commit, so two decisions that cannot
//! both hold never both commit.

mod capacity;
mod claim;
mod cluster_keys;
pub mod codes;
mod evaluate;
mod lowering;
mod quota_changes;
mod quotas;
mod register;
mod replace;
pub(crate) mod shelves;
mod stock;
mod waitlist;

pub use capacity::{GrantQuota, HoldCapacity, PrepareHeld, QuarantineHeld, ReleaseCapacity};
pub use claim::{Claim, ClaimNodes, ClaimedNode, PrepareNodes, ReleaseClaim, Released};
pub use cluster_keys::{
    IssueClusterKey, Issued, KEY_ORPHANED, KEYS_OVERLAP, RevokeClusterKey, Succession, revoke_cluster_key,
    rotate_cluster_key,
};
pub(crate) use evaluate::propose;
pub use evaluate::{Evaluate, Evaluated, facts};
pub use lowering::{CheckUse, ExcessMeasured, LowerQuota, MeasureExcess, RestoreQuota, SettleDecrease};
pub(crate) use quota_changes::write_line;
pub use quota_changes::{EvaluateChange, change_facts};
pub use quotas::{ClearQuotas, SetQuotas};
pub(crate) use quotas::{freeze, thaw};
pub use register::{ActivateTenant, RegisterTenant, UnregisterTenant};
pub use replace::{ClaimReplacements, QuarantineNodes};
pub use stock::{candidates, choose};
pub use waitlist::{ExtendWait, JoinWaitlist, Joined, LeaveWaitlist, waiting};
