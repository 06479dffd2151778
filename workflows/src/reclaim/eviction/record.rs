//! The data of an eviction, as it is persisted.

use crate::{
    platform::{ObservedGpus, PlannedGpus, ScrubLevel, Scrubbed, WorkloadRef},
    tenancy::{Checkpoint, TenantId, WorkloadClass},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long each part may take, and how thorough it is: from the policy that the reclaim was planned under.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EvictionTerms {
    /// Between notice and eviction.
    pub grace: Duration,
    /// To tell the borrower.
    pub notify: Duration,
    /// To ask the scheduler.
    pub evict: Duration,
    /// Until nothing of it is left.
    pub gone: Duration,
    /// To see its GPUs free.
    pub confirm: Duration,
    /// To clean the memory.
    pub scrub: Duration,
    /// So many equal looks say that a GPU is free.
    pub reads: u32,
    /// So far apart.
    pub apart: Duration,
    /// The least that is done to the memory.
    pub level: ScrubLevel,
}

/// The workload, and what has been learnt while it is evicted. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Eviction {
    /// Whose.
    pub tenant: TenantId,
    /// Which workload.
    pub workload: WorkloadRef,
    /// What it is like.
    pub class: WorkloadClass,
    /// How it saves its work.
    pub checkpoint: Checkpoint,
    /// Where the books planned it. Its GPUs are looked for in `observed`.
    pub gpus: PlannedGpus,
    /// Where it was seen to run: empty if its cluster says nowhere, `None` before its cluster was asked.
    #[serde(default)]
    pub observed: Option<ObservedGpus>,
    /// Where its cluster's facts said that it runs, when the eviction was planned.
    #[serde(default)]
    pub facts: ObservedGpus,
    /// When it will be evicted, in milliseconds since 1970.
    pub at: u64,
    /// How it is gone about.
    pub care: EvictionTerms,
    /// Looks in a row that saw nobody on its GPUs.
    pub clean: u32,
    /// Looks in all.
    pub looks: u32,
    /// Who had them open at the last look.
    pub open: Vec<String>,
    /// What was done to their memory.
    pub scrubbed: Vec<Scrubbed>,
    /// Why it need not go after all.
    #[serde(default)]
    pub spared: Option<String>,
}
