//! What a snapshot is made of: quotas, preemption policies, running workloads, nodes.

use crate::scheduling::planner::ResourceKind;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Amounts by kind.
pub type Amounts = BTreeMap<ResourceKind, u64>;

/// What a workspace or a cohort owns of one kind, and how far it may borrow and lends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// What is its own.
    pub nominal: u64,
    /// How much it may use above nominal; none: no limit.
    #[serde(default)]
    pub borrowing_limit: Option<u64>,
    /// How much of its own others may use; none: all of it.
    #[serde(default)]
    pub lending_limit: Option<u64>,
}

/// Whom a demand may preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptPolicy {
    /// Nobody.
    #[default]
    Never,
    /// Workloads of lower priority.
    LowerPriority,
    /// Those, and workloads of the same priority that were queued later.
    LowerOrNewerEqualPriority,
    /// Everybody.
    Any,
}

/// Whether a demand may preempt others and still end up borrowing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BorrowWithinCohort {
    /// It may not.
    #[default]
    Never,
    /// It may preempt workloads of lower priority, up to a threshold if one is set.
    LowerPriority {
        /// The highest priority that may be preempted so.
        max_priority_threshold: Option<i64>,
    },
}

/// A part of 1, in billionths: the weight of fair sharing. Zero gives way to everybody.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Weight(u64);

impl Weight {
    /// The weight of who was not given one.
    pub const ONE: Self = Self(1_000_000_000);
    /// The highest weight that shares are told apart with: about 17,592.
    const MOST: u64 = 1 << 44;

    /// A weight in billionths, at most about 17,592.
    #[must_use]
    pub fn billionths(billionths: u64) -> Self {
        Self(billionths.min(Self::MOST))
    }

    pub(in crate::scheduling::planner) fn get(self) -> u64 {
        self.0.min(Self::MOST)
    }
}

impl Default for Weight {
    fn default() -> Self {
        Self::ONE
    }
}

/// How a workspace or cohort takes part in sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// Its weight among its siblings.
    pub weight: Weight,
    /// How long what runs in it is left alone, in ms; none: as the cohort above says.
    pub min_runtime: Option<i64>,
}

/// What a demand of a workspace may preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// In its own workspace.
    pub within_workspace: PreemptPolicy,
    /// In others of its cohort that use more than their nominal.
    pub reclaim_within_cohort: PreemptPolicy,
    /// In others, when it would still be borrowing afterwards. Classical only.
    pub borrow_within_cohort: BorrowWithinCohort,
}

/// A part of a workload on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadPart {
    /// The node.
    pub node: String,
    /// The GPU on it, where the part is slices of one.
    #[serde(default)]
    pub gpu: Option<u32>,
    /// What it holds there.
    pub amounts: Amounts,
}

/// Workloads that only run together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gang {
    /// Its name within the workspace.
    pub id: String,
    /// How many members must run; below that, all are freed.
    pub min_available: u32,
}

/// A workload that holds quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its id, which breaks ties.
    pub id: String,
    /// Where it counts.
    pub workspace: String,
    /// Higher is more important.
    pub priority: i64,
    /// What it holds.
    pub usage: Amounts,
    /// When it was queued, in ms.
    pub queued_at: i64,
    /// When it was given its quota, in ms. The most recent goes first.
    pub reserved_at: i64,
    /// Whether it is being evicted. It counts as usage until it is removed from the snapshot.
    pub evicted: bool,
    /// The demand that it is being evicted for.
    pub freeing_for: Option<String>,
    /// Whether it may be preempted at all.
    pub preemptible: bool,
    /// Whether it can be checkpointed, so that little is lost.
    pub checkpoints: bool,
    /// Whether it writes a checkpoint at this moment.
    pub checkpointing: bool,
    /// Until when its loan may not be called back, in ms.
    pub protected_until: Option<i64>,
    /// The gang it is a member of.
    pub gang: Option<Gang>,
    /// Where it runs.
    pub parts: Vec<WorkloadPart>,
}

impl Workload {
    /// A preemptible workload with nothing but usage; the rest is set with struct update syntax.
    #[must_use]
    pub fn new(id: &str, workspace: &str, usage: Amounts) -> Self {
        Self {
            id: id.to_owned(),
            workspace: workspace.to_owned(),
            priority: 0,
            usage,
            queued_at: 0,
            reserved_at: 0,
            evicted: false,
            freeing_for: None,
            preemptible: true,
            checkpoints: false,
            checkpointing: false,
            protected_until: None,
            gang: None,
            parts: Vec::new(),
        }
    }
}

/// A node as placement sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// What nobody uses. Slices in a GPU's layout are given in `slices`.
    pub free: Amounts,
    /// Unused slices of each GPU, by its number on the node.
    #[serde(default)]
    pub slices: BTreeMap<u32, Amounts>,
    /// The workflow that holds the node for itself.
    #[serde(default)]
    pub held_by: Option<String>,
}

/// A part of a demand that must lie on one node or on one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemandPiece {
    /// What it needs.
    pub needs: Amounts,
    /// Whether its slices must lie on one GPU.
    #[serde(default)]
    pub on_one_gpu: bool,
}

/// What is asked for. It is placed whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// Its id.
    pub id: String,
    /// Who asks.
    pub workspace: String,
    /// Higher is more important.
    pub priority: i64,
    /// When it was queued, in ms.
    pub queued_at: i64,
    /// The time of the plan, in ms.
    pub now: i64,
    /// What it needs in all.
    pub requests: Amounts,
    /// The kinds that cannot be had without preemption; none: told from the snapshot.
    pub contested: Option<BTreeSet<ResourceKind>>,
    /// How it must lie on nodes; none: anywhere.
    pub pieces: Vec<DemandPiece>,
    /// Workloads freed for this demand that do not end: others are sought in their place.
    pub stuck: BTreeSet<String>,
}

impl Demand {
    /// A demand of priority 0, asked and planned at time 0.
    #[must_use]
    pub fn new(id: &str, workspace: &str, requests: Amounts) -> Self {
        Self {
            id: id.to_owned(),
            workspace: workspace.to_owned(),
            priority: 0,
            queued_at: 0,
            now: 0,
            requests,
            contested: None,
            pieces: Vec::new(),
            stuck: BTreeSet::new(),
        }
    }
}
