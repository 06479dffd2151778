//! What a plan says: the victims, why each, what stands against it, and how every candidate was judged.

use super::{Amounts, ResourceKind};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Why a workload may be preempted, in Kueue's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::Display)]
pub enum Reason {
    /// By priority, in the demand's own workspace.
    InClusterQueue,
    /// Its workspace uses what belongs to the demand.
    InCohortReclamation,
    /// It is of lower priority, although the demand borrows too.
    InCohortReclaimWhileBorrowing,
    /// Its workspace has more than its fair share.
    InCohortFairSharing,
}

/// Why a candidate by quota is left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "filter", rename_all = "snake_case")]
pub enum Filter {
    /// It may never be preempted.
    NeverPreempt,
    /// It has not run long enough.
    MinRuntime {
        /// When it has, in ms.
        until: i64,
    },
    /// Its loan may not be called back yet.
    ProtectedLoan {
        /// When it may, in ms.
        until: i64,
    },
    /// It writes a checkpoint at this moment.
    Checkpointing,
    /// Its node belongs to another workflow.
    NodeHeld {
        /// The node.
        node: String,
        /// Who holds it.
        by: String,
    },
    /// Policy forbids that these two take from one another.
    ForbiddenPair,
    /// It is being freed for somebody else.
    InTransit {
        /// For whom.
        demand: String,
    },
    /// It alone breaks the guard, which is a hard limit here.
    Guard,
    /// It does not end although it was told to.
    Stuck,
}

/// How a candidate was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum Verdict {
    /// It is a victim.
    Taken {
        /// Why it may be.
        reason: Reason,
    },
    /// It was taken, and then the demand fitted without it.
    Returned,
    /// It was taken, and all together were not enough.
    NotEnough,
    /// What it uses belongs to its workspace, or to a cohort that uses no more than its own.
    WithinNominal,
    /// It could only go if the demand ended up within its own quota.
    OnlyWithoutBorrowing,
    /// The demand would have more than its workspace would keep.
    Fairness,
    /// The demand's workspace may not preempt it.
    Policy,
    /// It was left alone for a reason that is not quota.
    Filtered(Filter),
    /// The demand fitted before its turn came.
    NotNeeded,
}

/// One candidate and how it was judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JudgedCandidate {
    /// The workload.
    pub workload: String,
    /// Its workspace.
    pub workspace: String,
    /// How it was judged.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// One way that was tried.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Whether the demand was allowed to end up borrowing.
    pub borrowing: bool,
    /// The nodes that were to be freed, where placement asked for some.
    pub nodes: Vec<String>,
    /// Whether the demand fitted in the end.
    pub fits: bool,
}

/// The evidence of a decision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// The kinds that the demand cannot have without preemption.
    pub contested: Vec<ResourceKind>,
    /// What was tried, in order; the last is the one that counts.
    pub attempts: Vec<Attempt>,
    /// Every candidate in the order it was looked at, then those that were not reached.
    pub candidates: Vec<JudgedCandidate>,
    /// Whether more were left out than the settings allow to list.
    pub cut: bool,
}

/// A workload that has to go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// The workload.
    pub workload: String,
    /// Its workspace.
    pub workspace: String,
    /// Why it may be preempted.
    pub reason: Reason,
    /// What it frees.
    pub frees: Amounts,
    /// The gang that would have too few members, where it goes for that.
    pub gang: Option<String>,
    /// Whether it is being evicted already.
    pub ongoing: bool,
}

/// Where a piece of the demand will lie.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PiecePlacement {
    /// The piece, as its place in the demand.
    pub piece: usize,
    /// The node.
    pub node: String,
    /// The GPU on it, where the slices must lie on one.
    pub gpu: Option<u32>,
}

/// What a plan breaks of the guard: it needs an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "breach", rename_all = "snake_case")]
pub enum Breach {
    /// Much more is freed than was asked for.
    Ratio {
        /// GPUs, or slices of a profile.
        resource: String,
        /// What the victims hold.
        victims: u64,
        /// What was asked for.
        requested: u64,
        /// The most, in percent of what was asked for.
        percent: u64,
    },
    /// A large part of what the tenant has is freed.
    TenantShare {
        /// Of this kind.
        kind: ResourceKind,
        /// What the victims hold.
        victims: u64,
        /// What the tenant has.
        capacity: u64,
        /// The most, in percent of what it has.
        percent: u64,
    },
    /// A victim is large.
    LargeVictim {
        /// The workload or gang.
        workload: String,
        /// Its GPUs.
        gpus: u64,
        /// The most.
        most: u64,
    },
    /// A victim has run long and has no checkpoint.
    LongRunning {
        /// The workload.
        workload: String,
        /// How long, in ms.
        ran: i64,
        /// The longest, in ms.
        most: i64,
    },
}

/// Who gives way to a demand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// In the order they were taken.
    pub victims: Vec<Victim>,
    /// Whether the demand ends up borrowing was allowed in the attempt that worked.
    pub borrowing: bool,
    /// What the plan breaks of the guard. Not empty: it needs an approval.
    pub breaches: Vec<Breach>,
    /// Where the demand will lie, if it said how.
    pub placement: Vec<PiecePlacement>,
    /// How every candidate was judged.
    pub explanation: Explanation,
}

impl Plan {
    /// Whether it may not begin before somebody has approved it.
    #[must_use]
    pub fn needs_approval(&self) -> bool {
        !self.breaches.is_empty()
    }
}

/// What to do about a demand that is not hopeless.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "snake_case")]
pub enum PlanAnswer {
    /// It fits as it is.
    Fits {
        /// Where, if it said how.
        placement: Vec<PiecePlacement>,
    },
    /// What it needs is being freed for it already.
    Wait {
        /// The workloads that are being evicted for it.
        freeing: BTreeSet<String>,
    },
    /// Somebody has to give way.
    Reclaim(Plan),
}

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(tag = "why", rename_all = "snake_case")]
pub enum InfeasibleReason {
    /// There is no such workspace.
    #[error("there is no workspace {workspace}")]
    NoWorkspace {
        /// The name.
        workspace: String,
    },
    /// It would not fit if nobody else used anything.
    #[error("{kind}: more than the workspace may ever have, {most}")]
    NeverFits {
        /// Of this kind.
        kind: ResourceKind,
        /// The most it may have.
        most: u64,
    },
    /// Nobody that may be preempted is enough.
    #[error("all that may be preempted are not enough")]
    NotEnough,
    /// Quota could be freed, but no nodes that it fits on.
    #[error("what can be freed is scattered over nodes")]
    Fragmentation,
    /// A plan would break the guard, which is a hard limit here.
    #[error("the plan would break the guard")]
    Guard {
        /// How.
        breaches: Vec<Breach>,
    },
}

/// No plan: why, and how every candidate was judged. Nothing is evicted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("no plan: {why}")]
pub struct Infeasible {
    /// Why.
    pub why: InfeasibleReason,
    /// How every candidate was judged.
    pub explanation: Explanation,
}
