//! The data of an SLA change, as it is persisted.

use crate::{
    platform::LayerLimits,
    policy::{Reason, Verdict},
    sla_change::{evaluate::SlaTerms, request::SlaRequest},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// The request, and what has been learnt while serving it. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlaChange {
    /// What is asked for.
    pub request: SlaRequest,
    /// What policy said. Filled by `Evaluating`, with the two that follow.
    pub verdict: Option<Verdict>,
    /// Rules that did not pass.
    pub reasons: Vec<Reason>,
    /// The terms that follow from it.
    pub terms: Option<SlaTerms>,
    /// How long the window is away. Filled by `ReadingClock`.
    pub opens_in: Duration,
    /// Since when the promise could not be made. Filled by `MeasuringConformance`, with the next.
    pub waiting_since: Option<Timestamp>,
    /// Whether that has been so for longer than policy allows without asking people.
    pub overdue: bool,
    /// How the GPUs of each node were cut up before, in the order of the terms.
    pub layouts: Vec<String>,
    /// What the layers said before, in the order of the terms' workspaces.
    pub limits: Vec<LayerLimits>,
}
