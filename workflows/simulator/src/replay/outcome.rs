//! How a replay is run, and what came of it.

use super::{
    baseline::Baseline,
    measures::{Measures, Sample, WorkspaceMeasures},
};
use engine::InvalidWorkflow;
use serde::Serialize;
use store::Timestamp;

/// Why a replay broke off. Nothing that a trace or a policy says can do that.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The engine or the ledger refused.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A workflow did not register.
    #[error(transparent)]
    Unsound(#[from] InvalidWorkflow),
    /// The simulated cluster refused.
    #[error("the simulated cluster: {0}")]
    World(String),
    /// A document cannot be read.
    #[error("the ledger cannot be read: {0}")]
    Unreadable(String),
}

/// Something that must never happen and did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// When it was seen.
    pub at: Timestamp,
    /// Which rule: `I-8`, `S-32`.
    pub rule: &'static str,
    /// What was seen, and after which event.
    pub what: String,
}

/// What a replay came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// In numbers.
    pub measures: Measures,
    /// By workspace.
    pub parts: Vec<WorkspaceMeasures>,
    /// Over time.
    pub samples: Vec<Sample>,
    /// How long owners waited, in seconds, shortest first.
    pub owner_waits: Vec<f64>,
    /// What must never happen and did.
    pub violations: Vec<Violation>,
    /// What happened, if it is told.
    pub story: Vec<String>,
}

/// How a replay is run.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How the scene is run.
    pub baseline: Baseline,
    /// The platform policy, as text; the built-in one if there is none.
    pub policy: Option<String>,
    /// What goes wrong in the simulated world.
    pub faults: backends::simulated::Script,
    /// Whether the story is told.
    pub told: bool,
    /// After so many happenings everything is checked, not only what is cheap.
    pub check_every: u64,
}

impl Settings {
    /// As policy says, without faults or a story.
    #[must_use]
    pub fn of(baseline: Baseline) -> Self {
        Self { baseline, policy: None, faults: Default::default(), told: false, check_every: 2_000 }
    }
}
