//! The ledger's actions: pure decisions on Tenure's own documents. Each is committed exactly once, with the step that makes it.
//!
//! A decision about a range (free nodes, waiting executions, the nodes of a tenant) reads a head document that every change of the range rewrites.
//! These are [`FreePool`](crate::tenancy::FreePool), [`Waitlist`](crate::tenancy::Waitlist) and [`NodeAllocation`](crate::tenancy::NodeAllocation).
//! Documents that were read become conditions of the commit, so that of two conflicting decisions only one is committed.

mod candidates;
pub(crate) mod capacity_waitlist;
mod cluster_keys;
pub mod codes;
mod evaluate_request;
pub(crate) mod node_claim;
pub(crate) mod node_preparation;
mod node_replacement;
pub(crate) mod pool_index;
pub(crate) mod quotas;
mod tenant_registration;

pub use candidates::{candidates, choose};
pub use capacity_waitlist::{ExtendWait, JoinWaitlist, JoinedWaitlist, LeaveWaitlist, waiting};
pub use cluster_keys::{
    IssueClusterKey, IssuedKey, KEY_ORPHANED, KEYS_OVERLAP, KeySuccession, RevokeClusterKey,
    revoke_cluster_key, rotate_cluster_key, undrawn_cluster_key,
};
pub(crate) use evaluate_request::propose;
pub use evaluate_request::{Evaluate, RequestEvaluation, facts};
pub use node_claim::{ClaimNodes, ClaimReleased, ClaimedNode, NodeClaim, PrepareNodes, ReleaseClaim};
pub use node_replacement::{ClaimReplacements, QuarantineNodes};
pub use quotas::{ClearQuotas, GpuHoldings, SetQuotas};
pub(crate) use quotas::{freeze, thaw};
pub use tenant_registration::{ActivateTenant, RegisterTenant, UnregisterTenant};
