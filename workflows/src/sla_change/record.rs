//! The data of an SLA change, as it is persisted.

use crate::{
    platform::LayerLimits,
    policy::{Reason, Verdict},
    sla_change::{evaluate::SlaTerms, request::SlaRequest},
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// The request and the progress of the change. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlaChange {
    /// The request.
    pub request: SlaRequest,
    /// The verdict of policy. Set by `Evaluating`, with the next two.
    pub verdict: Option<Verdict>,
    /// Rules that failed or require an approval.
    pub reasons: Vec<Reason>,
    /// The terms.
    pub terms: Option<SlaTerms>,
    /// The time until the window. Set by `ReadingClock`.
    pub opens_in: Duration,
    /// The time since which the service level was not possible. Set by `MeasuringConformance`, with the next.
    pub waiting_since: Option<Timestamp>,
    /// True if that has lasted longer than policy allows without an approval.
    pub overdue: bool,
    /// The previous layout of each node, in the order of the terms.
    pub layouts: Vec<String>,
    /// The previous values of the layers, in the order of the terms' workspaces.
    pub limits: Vec<LayerLimits>,
}
