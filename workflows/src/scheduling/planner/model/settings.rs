//! How plans are made: the algorithm, the guard, the forbidden pairs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// When a workload of another workspace may be preempted for the sake of fairness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strategy {
    /// The demand's share will be at most what the other's is without the workload (S2-a).
    LessThanOrEqualToFinalShare,
    /// The demand's share will be less than what the other's is with it (S2-b).
    LessThanInitialShare,
}

/// How victims are chosen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// By who is above nominal, and by priority.
    Classical,
    /// By who has most above its own.
    Fair {
        /// The first decides; the second, if there is one, is S2-b for those that were left.
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

/// What a plan may do without anybody approving it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Guard {
    /// The most that victims may hold, in percent of what was asked for. Default 200: KAI evicted 376 GPUs for a request
    /// of 48 (KAI#1565).
    pub ratio_percent: u64,
    /// The most that victims may hold, in percent of what the tenant has of the kind. Default 25.
    pub share_percent: u64,
    /// The most whole GPUs that one victim may have. Default 8, one node.
    pub max_victim_gpus: u64,
    /// The longest, in ms, that a victim without checkpoints may have run. Default 24 h.
    pub max_run_without_checkpoint: i64,
    /// Whether no plan beyond it is made at all.
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

/// Whose minimum runtime protects a workload (KAI resolves it in these two ways).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinRuntimeAt {
    /// Its workspace's or, if that has none, the next above.
    #[default]
    Workspace,
    /// That of its branch just below the cohort it shares with the demand or, if that has none, the next above.
    CommonCohort,
}

/// How plans are made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// How victims are chosen.
    pub algorithm: Algorithm,
    /// What needs an approval; none: nothing does.
    pub guard: Option<Guard>,
    /// Pairs (who asks, who holds) that may not take from one another.
    pub forbidden: BTreeSet<(String, String)>,
    /// Whose minimum runtime counts.
    pub min_runtime_at: MinRuntimeAt,
    /// Whether a victim that turned out not to be needed is let go. Kueue does so and KAI does not; off only to compare.
    pub fill_back: bool,
    /// How many candidates an explanation lists at most. Default 200, about 30 KB.
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
