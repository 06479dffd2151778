//! Results of replays for people and programs: a table, JSON, and a self-contained page.

mod page;
mod plot;
mod table;

pub use page::page;
pub use table::table;

use crate::{replay::Outcome, scenario::Scenario, trace::quota_shares::Counted};
use serde::Serialize;

/// A scenario and the results of its replays. The first result is the main one.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scenario's name.
    pub scene: String,
    /// The origin of the trace.
    pub kind: super::Kind,
    /// The seed of random draws.
    pub seed: u64,
    /// The name of the platform policy.
    pub policy: String,
    /// The replayed days.
    pub days: f64,
    /// Nodes of the tenant.
    pub nodes: usize,
    /// GPUs of the tenant.
    pub gpus: usize,
    /// The sum of nominal quotas, in whole GPUs.
    pub promised: f64,
    /// Workspaces.
    pub workspaces: usize,
    /// Counts taken before the replay, by group.
    pub counts: Vec<(String, Counted)>,
    /// Assumptions and omissions.
    pub notes: Vec<String>,
    /// The result of each replay.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Creates the report of a scenario.
    #[must_use]
    pub fn of(scene: &Scenario, seed: u64, policy: &str, outcomes: Vec<Outcome>) -> Self {
        let nominal = scene.workspaces.values().flat_map(|portion| &portion.allowances);
        let promised = nominal
            .map(|(resource, allowance)| {
                allowance.nominal as f64 * crate::replay::measures::weight_of(resource)
            })
            .sum();
        Self {
            scene: scene.name.clone(),
            kind: scene.kind,
            seed,
            policy: policy.to_owned(),
            days: scene.ends.as_secs_f64() / 86_400.0,
            nodes: scene.machines.len(),
            gpus: scene.gpus(),
            promised,
            workspaces: scene.workspaces.len(),
            counts: scene.counts.clone(),
            notes: scene.notes.clone(),
            outcomes,
        }
    }

    /// Returns the number of violations in all replays.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.measures.violations).sum()
    }
}
