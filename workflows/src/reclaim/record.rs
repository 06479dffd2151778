//! The data of a reclaim, as it is persisted.

use super::planned::PlannedReclaim;
use crate::{
    platform::{Scrubbed, StartWorkload},
    tenancy::{Resource, TenantId, WorkspaceName},
};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// The signal that a workload which held GPUs back has let go of them.
pub const VICTIM_FREED: &str = "reclaim.victim_freed";

/// Why GPUs are called back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ReclaimCause {
    /// A workload waits inside what is promised to its workspace.
    Demand {
        /// The workspace.
        workspace: WorkspaceName,
        /// The workload.
        workload: String,
    },
    /// Loans have lasted longer than policy allows, and somebody waits.
    Overdue,
    /// A workspace uses more than it may since its quota was lowered.
    Excess {
        /// The workspace.
        workspace: WorkspaceName,
        /// How much of the kind it has to give up.
        amount: u64,
    },
}

/// What is called back and why, and what has been learnt meanwhile. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reclaim {
    /// Whose.
    pub tenant: TenantId,
    /// Of which kind.
    pub resource: Resource,
    /// Why.
    pub cause: ReclaimCause,
    /// The plan that is carried out, or was the last to be.
    pub planned: Option<PlannedReclaim>,
    /// What the last planning said, if it found nobody.
    pub why: Option<String>,
    /// How often it was planned.
    pub plans: u32,
    /// Whether victims have been fenced, by this plan or an earlier one.
    pub begun: bool,
    /// How each eviction ended, by the workload's name.
    pub ended: Vec<EvictionEnd>,
    /// How far the demand has come.
    pub assessed: Option<ReclaimProgress>,
    /// How often that was looked at.
    pub looks: u32,
    /// What the demand was given.
    pub grant: Option<DemandGrant>,
}

/// How one eviction ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionEnd {
    /// The workload.
    pub workload: String,
    /// The state in which its eviction ended: `Cleared`, `Barred`, `Stuck`, `Spared`, as nobody needed it any more, or `Unobserved`, as
    /// nobody could say where it ran.
    pub state: String,
    /// What was done to the memory of its GPUs.
    pub scrubbed: Vec<Scrubbed>,
}

/// How many victims are evicted at the same time.
pub(super) const AT_ONCE: usize = 64;

/// How far a reclaim has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimProgress {
    /// What the demand lacks still; without a demand, how many victims hold theirs.
    pub missing: u64,
    /// Victims that hold their GPUs still.
    pub left: u64,
    /// Whether the demand is gone.
    pub withdrawn: bool,
}

/// What a demand was given.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemandGrant {
    /// What its cluster is told; `None` if it was withdrawn at the last moment.
    pub start: Option<StartWorkload>,
    /// The decision that admitted it. `None` in grants of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decision: Option<String>,
    /// When.
    pub at: Timestamp,
    /// Whether the promise was kept.
    pub in_time: bool,
}
