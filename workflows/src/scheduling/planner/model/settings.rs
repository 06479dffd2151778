//! Settings of the planner: algorithm, guard and forbidden pairs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The condition under which fair sharing preempts a workload of another workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// The demand's share will be at most the other share without the workload (S2-a).
    LessThanOrEqualToFinalShare,
    /// The demand's share will be less than the other share with the workload (S2-b).
    LessThanInitialShare,
}

/// The algorithm that chooses victims.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// By usage above the nominal quota, and by priority.
    Classical,
    /// By the highest share above the own quota.
    Fair {
        /// The first strategy decides. The second, if present, is S2-b for the remaining candidates.
        strategies: Vec<Strategy>,
    },
}

impl Algorithm {
    /// Fair sharing with both strategies, Kueue's default.
    #[must_use]
    pub fn fair() -> Self {
        Self::Fair { strategies: vec![Strategy::LessThanOrEqualToFinalShare, Strategy::LessThanInitialShare] }
    }
}

/// The limits that a plan may not exceed without an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The most that victims may use, in percent of the requested amount. Default 200: KAI evicted 376 GPUs for a request of 48 (KAI#1565).
    pub ratio_percent: u64,
    /// The most that victims may use, in percent of the tenant's capacity of the kind. Default 25.
    pub share_percent: u64,
    /// The most whole GPUs of one victim. Default 8, one node.
    pub max_victim_gpus: u64,
    /// The longest runtime of a victim without checkpoints, in ms. Default 24 h.
    pub max_run_without_checkpoint: i64,
    /// True if a plan above a limit is rejected instead of approved.
    pub hard: bool,
}

impl Default for Guard {
    fn default() -> Self {
        Self {
            ratio_percent: 200,
            share_percent: 25,
            max_victim_gpus: 8,
            max_run_without_checkpoint: 24 * 60 * 60 * 1000,
            hard: false,
        }
    }
}

/// The node whose minimum runtime protects a workload. KAI offers both variants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinRuntimeAt {
    /// Its workspace or, if that has none, the nearest cohort above with one.
    #[default]
    Workspace,
    /// The branch just below the cohort that it shares with the demand or, if that has none, the nearest cohort above with one.
    CommonCohort,
}

/// The settings of the planner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// The algorithm that chooses victims.
    pub algorithm: Algorithm,
    /// The guard; `None` needs no approvals.
    pub guard: Option<Guard>,
    /// Pairs (requester, holder) between which preemption is forbidden.
    pub forbidden: BTreeSet<(String, String)>,
    /// The source of the minimum runtime.
    pub min_runtime_at: MinRuntimeAt,
    /// True if victims that turn out unnecessary are removed from the plan. Kueue does this and KAI does not; disable only for comparisons.
    pub fill_back: bool,
    /// The most candidates in an explanation. Default 200, about 30 KB.
    pub explain: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            algorithm: Algorithm::Classical,
            guard: Some(Guard::default()),
            forbidden: BTreeSet::new(),
            min_runtime_at: MinRuntimeAt::default(),
            fill_back: true,
            explain: 200,
        }
    }
}
