//! The parts of a snapshot: quotas, preemption policies, running workloads, nodes.

use crate::scheduling::planner::ResourceKind;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Amounts by kind.
pub type Amounts = BTreeMap<ResourceKind, u64>;

/// The quota of a workspace or a cohort for one kind, with its borrowing and lending limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// The nominal quota.
    pub nominal: u64,
    /// The most that it may use above the nominal quota; `None` for no limit.
    #[serde(default)]
    pub borrowing_limit: Option<u64>,
    /// The most of its own quota that others may use; `None` for all of it.
    #[serde(default)]
    pub lending_limit: Option<u64>,
}

/// The workloads that a demand may preempt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptPolicy {
    /// No workload.
    #[default]
    Never,
    /// Workloads of lower priority.
    LowerPriority,
    /// Workloads of lower priority, and workloads of equal priority that were queued later.
    LowerOrNewerEqualPriority,
    /// Every workload.
    Any,
}

/// The rule for demands that preempt other workspaces and still borrow afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum BorrowWithinCohort {
    /// Never allowed.
    #[default]
    Never,
    /// Allowed for workloads of lower priority, up to a threshold if one is set.
    LowerPriority {
        /// The highest priority that may be preempted.
        max_priority_threshold: Option<i64>,
    },
}

/// The weight in fair sharing, in billionths of 1. A weight of zero is preempted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Weight(u64);

impl Weight {
    /// The default weight.
    pub const ONE: Self = Self(1_000_000_000);
    /// The highest weight that shares distinguish: about 17,592.
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

/// The settings of a workspace or cohort for sharing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sharing {
    /// The weight relative to its siblings.
    pub weight: Weight,
    /// The minimum runtime of its workloads, in ms; `None` uses that of the cohort above.
    pub min_runtime: Option<i64>,
}

/// The preemption rules for demands of a workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preemption {
    /// For its own workspace.
    pub within_workspace: PreemptPolicy,
    /// For other workspaces of its cohort above their nominal quota.
    pub reclaim_within_cohort: PreemptPolicy,
    /// For other workspaces if it still borrows afterwards. Classical preemption only.
    pub borrow_within_cohort: BorrowWithinCohort,
}

/// A part of a workload on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadPart {
    /// The node.
    pub node: String,
    /// The GPU, if the part consists of slices of one GPU.
    #[serde(default)]
    pub gpu: Option<u32>,
    /// The amounts on this node.
    pub amounts: Amounts,
}

/// Workloads that run only together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gang {
    /// The name, unique within the workspace.
    pub id: String,
    /// The number of members that must run. Below it, all are freed.
    pub min_available: u32,
}

/// A workload that holds quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its id. Breaks ties.
    pub id: String,
    /// The workspace that its usage counts in.
    pub workspace: String,
    /// Higher is more important.
    pub priority: i64,
    /// The amounts.
    pub usage: Amounts,
    /// The time when it was queued, in ms.
    pub queued_at: i64,
    /// The time when its quota was reserved, in ms. The most recent workload is preempted first.
    pub reserved_at: i64,
    /// True if it is being evicted. It counts as usage until it is removed from the snapshot.
    pub evicted: bool,
    /// The demand that it is evicted for.
    pub freeing_for: Option<String>,
    /// True if it may be preempted.
    pub preemptible: bool,
    /// True if it supports checkpoints, so that little work is lost.
    pub checkpoints: bool,
    /// True if it is writing a checkpoint now.
    pub checkpointing: bool,
    /// The time until which its loan is protected, in ms.
    pub protected_until: Option<i64>,
    /// The gang it is a member of.
    pub gang: Option<Gang>,
    /// The parts on nodes.
    pub parts: Vec<WorkloadPart>,
}

impl Workload {
    /// Creates a preemptible workload with only its usage. Set other fields with struct update syntax.
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
    /// Its free amounts. Slices with a known GPU are in `slices` instead.
    pub free: Amounts,
    /// Free slices of each GPU, by its index on the node.
    #[serde(default)]
    pub slices: BTreeMap<u32, Amounts>,
    /// The workflow that holds the node exclusively.
    #[serde(default)]
    pub held_by: Option<String>,
}

/// A part of a demand that needs one node or one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DemandPiece {
    /// The amounts.
    pub needs: Amounts,
    /// True if its slices must be on one GPU.
    #[serde(default)]
    pub on_one_gpu: bool,
}

/// The requested amounts. They are placed completely or not at all.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demand {
    /// The id.
    pub id: String,
    /// The requesting workspace.
    pub workspace: String,
    /// Higher is more important.
    pub priority: i64,
    /// The time when it was queued, in ms.
    pub queued_at: i64,
    /// The time of the plan, in ms.
    pub now: i64,
    /// The total amounts.
    pub requests: Amounts,
    /// The kinds that are not available without preemption; `None` computes them from the snapshot.
    pub contested: Option<BTreeSet<ResourceKind>>,
    /// The pieces on nodes; empty for any placement.
    pub pieces: Vec<DemandPiece>,
    /// Workloads freed for this demand that do not end. The planner chooses others instead.
    pub stuck: BTreeSet<String>,
}

impl Demand {
    /// Creates a demand of priority 0, queued and planned at time 0.
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
