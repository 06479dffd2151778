//! What replays came to, for people and programs: a table, JSON, and a page that stands by itself.

mod page;
mod plot;
mod table;

pub use page::page;
pub use table::table;

use crate::{replay::Outcome, scenario::Scenario, trace::quota_shares::Counted};
use serde::Serialize;

/// A scene and what its replays came to, the first of which is the one in question.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The scene's name.
    pub scene: String,
    /// Where it comes from.
    pub kind: super::Kind,
    /// The seed, where anything was drawn.
    pub seed: u64,
    /// The platform policy, as it was named.
    pub policy: String,
    /// How many days are replayed.
    pub days: f64,
    /// Nodes of the tenant.
    pub nodes: usize,
    /// GPUs of the tenant.
    pub gpus: usize,
    /// GPUs that are promised, in whole GPUs.
    pub promised: f64,
    /// Workspaces.
    pub workspaces: usize,
    /// Counted before the replay, by what.
    pub counts: Vec<(String, Counted)>,
    /// What was left out or presumed.
    pub notes: Vec<String>,
    /// What each replay came to.
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// The report on a scene.
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

    /// What must never happen and did, over all replays.
    #[must_use]
    pub fn violations(&self) -> u64 {
        self.outcomes.iter().map(|outcome| outcome.measures.violations).sum()
    }
}
