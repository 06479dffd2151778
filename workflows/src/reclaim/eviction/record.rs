//! The data of an eviction, as it is persisted.

use crate::{
    platform::{ObservedGpus, PlannedGpus, ScrubLevel, Scrubbed, WorkloadRef},
    tenancy::{Checkpoint, TenantId, WorkloadClass},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The time limits and the thoroughness of each part, from the policy of the reclaim's plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionTerms {
    /// The time between notice and eviction.
    pub grace: Duration,
    /// The time limit of the notice.
    pub notify: Duration,
    /// The time limit of the request to the scheduler.
    pub evict: Duration,
    /// The time limit until nothing of it is left.
    pub gone: Duration,
    /// The time limit of confirming that its GPUs are free.
    pub confirm: Duration,
    /// The time limit of the scrub.
    pub scrub: Duration,
    /// The number of equal observations that prove a GPU free.
    pub reads: u32,
    /// The time between two of them.
    pub apart: Duration,
    /// The minimum scrub level.
    pub level: ScrubLevel,
}

/// The workload and the progress of its eviction. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Eviction {
    /// The tenant.
    pub tenant: TenantId,
    /// The workload.
    pub workload: WorkloadRef,
    /// The class.
    pub class: WorkloadClass,
    /// The checkpoint support.
    pub checkpoint: Checkpoint,
    /// The planned GPUs. The real ones are in `observed`.
    pub gpus: PlannedGpus,
    /// The observed GPUs: empty if its cluster reports none, `None` before its cluster was queried.
    #[serde(default)]
    pub observed: Option<ObservedGpus>,
    /// The GPUs in its cluster's facts when the eviction was planned.
    #[serde(default)]
    pub facts: ObservedGpus,
    /// The time of its eviction, in milliseconds since 1970.
    pub at: u64,
    /// The terms.
    pub care: EvictionTerms,
    /// Consecutive observations without a process on its GPUs.
    pub clean: u32,
    /// The number of all observations.
    pub looks: u32,
    /// The processes on its GPUs at the last observation.
    pub open: Vec<String>,
    /// The scrub of its GPUs.
    pub scrubbed: Vec<Scrubbed>,
    /// The reason why it was spared.
    #[serde(default)]
    pub spared: Option<String>,
}
