//! The data of a reclaim, as it is persisted.

use super::planned::PlannedReclaim;
use crate::{
    platform::{Scrubbed, StartWorkload},
    tenancy::{Resource, TenantId, WorkspaceName},
};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// The signal that a stuck workload has released its GPUs.
pub const VICTIM_FREED: &str = "reclaim.victim_freed";

/// The cause of a reclaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReclaimCause {
    /// A workload waits within its workspace's reserved quota.
    Demand {
        /// The workspace.
        workspace: WorkspaceName,
        /// The workload.
        workload: String,
    },
    /// Loans are overdue, and another workload waits.
    Overdue,
    /// A workspace is above its quota after the quota was lowered.
    Excess {
        /// The workspace.
        workspace: WorkspaceName,
        /// The amount of the kind to release.
        amount: u64,
    },
}

/// The data of a reclaim. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reclaim {
    /// The tenant.
    pub tenant: TenantId,
    /// The kind.
    pub resource: Resource,
    /// The cause.
    pub cause: ReclaimCause,
    /// The current plan, or the last one.
    pub planned: Option<PlannedReclaim>,
    /// The reason of the last planning, if it found no victims.
    pub why: Option<String>,
    /// The number of plans so far.
    pub plans: u32,
    /// True if victims have been fenced, by this plan or an earlier one.
    pub begun: bool,
    /// The result of each eviction, by the workload's name.
    pub ended: Vec<EvictionEnd>,
    /// The progress of the demand.
    pub assessed: Option<ReclaimProgress>,
    /// The number of checks of the progress.
    pub looks: u32,
    /// The grant of the demand.
    pub grant: Option<DemandGrant>,
}

/// The result of one eviction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionEnd {
    /// The workload.
    pub workload: String,
    /// The final state of its eviction: `Cleared`, `Barred`, `Stuck`, `Spared` if it was no longer needed, or `Unobserved` if its placement was unknown.
    pub state: String,
    /// The scrub of its GPUs.
    pub scrubbed: Vec<Scrubbed>,
}

/// The number of victims that are evicted at the same time.
pub(super) const AT_ONCE: usize = 64;

/// The progress of a reclaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimProgress {
    /// The amount that the demand still lacks; without a demand, the number of remaining victims.
    pub missing: u64,
    /// Victims that still have their GPUs.
    pub left: u64,
    /// True if the demand was withdrawn.
    pub withdrawn: bool,
}

/// The grant of a demand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemandGrant {
    /// The start command for its cluster; `None` if it was withdrawn just before.
    pub start: Option<StartWorkload>,
    /// The decision that admitted it. `None` in grants of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// The time.
    pub at: Timestamp,
    /// True if the deadline was met.
    pub in_time: bool,
}
