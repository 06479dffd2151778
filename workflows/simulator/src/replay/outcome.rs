//! Settings and results of a replay.

use super::{
    baseline::Baseline,
    measures::{Measures, Sample, WorkspaceMeasures},
};
use engine::InvalidWorkflow;
use serde::Serialize;
use store::Timestamp;

/// The error of a replay. Traces and policies cannot cause it.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// An error of the engine or the ledger.
    #[error(transparent)]
    Engine(#[from] engine::Error),
    /// A workflow failed its registration.
    #[error(transparent)]
    Unsound(#[from] InvalidWorkflow),
    /// An error of the simulated cluster.
    #[error("the simulated cluster: {0}")]
    World(String),
    /// A document is invalid.
    #[error("the ledger cannot be read: {0}")]
    Unreadable(String),
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The time of the check.
    pub at: Timestamp,
    /// The rule, such as `I-8` or `S-32`.
    pub rule: &'static str,
    /// The observation and the preceding event.
    pub what: String,
}

/// The result of a replay.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// The measures.
    pub measures: Measures,
    /// Measures of each workspace.
    pub parts: Vec<WorkspaceMeasures>,
    /// Samples over time.
    pub samples: Vec<Sample>,
    /// Waits of owners, in seconds, shortest first.
    pub owner_waits: Vec<f64>,
    /// Violated invariants.
    pub violations: Vec<Violation>,
    /// The event log, if it is recorded.
    pub story: Vec<String>,
}

/// Settings of a replay.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The variant.
    pub baseline: Baseline,
    /// The platform policy as text. Default: the built-in one.
    pub policy: Option<String>,
    /// Faults of the simulated platform.
    pub faults: backends::simulated::Script,
    /// True to record the event log.
    pub told: bool,
    /// The number of events between two complete checks.
    pub check_every: u64,
}

impl Settings {
    /// Returns settings for a variant, without a policy, faults or event log.
    #[must_use]
    pub fn of(baseline: Baseline) -> Self {
        Self { baseline, policy: None, faults: Default::default(), told: false, check_every: 2_000 }
    }
}
