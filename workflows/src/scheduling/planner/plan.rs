//! The content of a plan: victims, the reason for each, guard breaches, and the verdict on every candidate.

use super::{Amounts, ResourceKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Why a workload may be preempted, in Kueue's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::Display)]
pub enum Reason {
    /// By priority, in the demand's own workspace.
    InClusterQueue,
    /// The workspace uses quota that belongs to the demand.
    InCohortReclamation,
    /// It has a lower priority, although the demand also borrows.
    InCohortReclaimWhileBorrowing,
    /// The workspace uses more than its fair share.
    InCohortFairSharing,
}

/// The reason why a candidate by quota is not preempted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "filter", rename_all = "snake_case")]
pub enum Filter {
    /// It is not preemptible.
    NeverPreempt,
    /// It has not reached its minimum runtime.
    MinRuntime {
        /// The end of the minimum runtime, in ms.
        until: i64,
    },
    /// The loan is still protected.
    ProtectedLoan {
        /// The end of the protection, in ms.
        until: i64,
    },
    /// It is writing a checkpoint now.
    Checkpointing,
    /// Another workflow holds its node.
    NodeHeld {
        /// The node.
        node: String,
        /// The workflow.
        by: String,
    },
    /// Policy forbids preemption between these two workspaces.
    ForbiddenPair,
    /// It is being freed for another demand.
    InTransit {
        /// The other demand.
        demand: String,
    },
    /// This candidate exceeds the guard without other victims, and the guard is a hard limit.
    Guard,
    /// It does not end although its eviction was requested.
    Stuck,
}

/// The verdict on a candidate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It is a victim.
    Taken {
        /// The reason.
        reason: Reason,
    },
    /// It was a victim until the demand fitted without it.
    Returned,
    /// It was a victim, but all victims together were not enough.
    NotEnough,
    /// Its usage is within the quota of its workspace or of a cohort above it.
    WithinNominal,
    /// It could be preempted only if the demand stays within its own quota.
    OnlyWithoutBorrowing,
    /// The demand's share would exceed the share of the candidate's workspace.
    Fairness,
    /// The policy of the demand's workspace does not allow it.
    Policy,
    /// It was protected for a reason other than quota.
    Filtered(Filter),
    /// The demand fitted before this candidate was reached.
    NotNeeded,
}

/// A candidate with its verdict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedCandidate {
    /// The workload.
    pub workload: String,
    /// The workspace.
    pub workspace: String,
    /// The verdict.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// One attempt to make the demand fit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// True if the demand was allowed to borrow.
    pub borrowing: bool,
    /// The nodes to empty, if placement required it.
    pub nodes: Vec<String>,
    /// True if the demand fits in the end.
    pub fits: bool,
}

/// The explanation of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The kinds that are not available without preemption.
    pub contested: Vec<ResourceKind>,
    /// The attempts in order. The last one is the result.
    pub attempts: Vec<Attempt>,
    /// Every candidate in the order of its check, then the candidates that were not reached.
    pub candidates: Vec<JudgedCandidate>,
    /// True if the list was cut at the limit of the settings.
    pub cut: bool,
}

/// A workload to evict.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// The workload.
    pub workload: String,
    /// The workspace.
    pub workspace: String,
    /// The reason.
    pub reason: Reason,
    /// The amounts that it frees.
    pub frees: Amounts,
    /// The gang that falls below its minimum, if the victim is evicted for that reason.
    pub gang: Option<String>,
    /// True if its eviction has begun.
    pub ongoing: bool,
}

/// The place of one piece of the demand.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PiecePlacement {
    /// The index of the piece in the demand.
    pub piece: usize,
    /// The node.
    pub node: String,
    /// The GPU, if the slices must be on one GPU.
    pub gpu: Option<u32>,
}

/// A guard limit that a plan exceeds. The plan needs an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "breach", rename_all = "snake_case")]
pub enum Breach {
    /// The plan frees far more than the request.
    Ratio {
        /// GPUs, or slices of a profile.
        resource: String,
        /// The GPUs of the victims.
        victims: u64,
        /// The requested amount.
        requested: u64,
        /// The limit, in percent of the requested amount.
        percent: u64,
    },
    /// The plan frees a large part of the tenant's capacity.
    TenantShare {
        /// The kind.
        kind: ResourceKind,
        /// The amount of the victims.
        victims: u64,
        /// The tenant's capacity.
        capacity: u64,
        /// The limit, in percent of the capacity.
        percent: u64,
    },
    /// A victim has many GPUs.
    LargeVictim {
        /// The workload or gang.
        workload: String,
        /// The GPUs.
        gpus: u64,
        /// The limit.
        most: u64,
    },
    /// A victim has run for long without a checkpoint.
    LongRunning {
        /// The workload.
        workload: String,
        /// The runtime, in ms.
        ran: i64,
        /// The limit, in ms.
        most: i64,
    },
}

/// The victims for a demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The victims, in the order of choice.
    pub victims: Vec<Victim>,
    /// True if the successful attempt allowed the demand to borrow.
    pub borrowing: bool,
    /// The exceeded guard limits. If not empty, the plan needs an approval.
    pub breaches: Vec<Breach>,
    /// The places of the demand, if it has pieces.
    pub placement: Vec<PiecePlacement>,
    /// The verdict on every candidate.
    pub explanation: Explanation,
}

impl Plan {
    /// Returns true if the plan needs an approval before it starts.
    #[must_use]
    pub fn needs_approval(&self) -> bool {
        !self.breaches.is_empty()
    }
}

/// The result for a feasible demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PlanAnswer {
    /// It fits without preemption.
    Fits {
        /// The places, if it has pieces.
        placement: Vec<PiecePlacement>,
    },
    /// The missing amount is already being freed for it.
    Wait {
        /// The workloads that are being evicted for it.
        freeing: BTreeSet<String>,
    },
    /// Workloads must be evicted.
    Reclaim(Plan),
}

/// The reason why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum InfeasibleReason {
    /// The workspace does not exist.
    #[error("workspace {workspace} does not exist")]
    NoWorkspace {
        /// The name.
        workspace: String,
    },
    /// It would not fit even if nothing else were in use.
    #[error("{kind}: more than the workspace may ever use, {most}")]
    NeverFits {
        /// The kind.
        kind: ResourceKind,
        /// The most that it may use.
        most: u64,
    },
    /// The preemptible workloads are not enough.
    #[error("the workloads that may be evicted free too few GPUs")]
    NotEnough,
    /// Quota could be freed, but not on nodes that fit the demand.
    #[error("the GPUs that can be freed are on too many nodes")]
    Fragmentation,
    /// Every plan exceeds the guard, which is a hard limit.
    #[error("the plan would exceed the guard")]
    Guard {
        /// The exceeded limits.
        breaches: Vec<Breach>,
    },
}

/// There is no plan: the reason, and the verdict on every candidate. Nothing is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("no plan: {why}")]
pub struct Infeasible {
    /// The reason.
    pub why: InfeasibleReason,
    /// The verdict on every candidate.
    pub explanation: Explanation,
}
