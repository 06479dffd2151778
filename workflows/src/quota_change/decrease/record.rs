//! The data of a quota decrease, as it is persisted.

use crate::{
    platform::LayerLimits,
    policy::{Reason, Verdict},
    quota_change::{ChangeTerms, QuotaRequest},
};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// The request, and what has been learnt while serving it. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaDecrease {
    /// What is asked for.
    pub request: QuotaRequest,
    /// What policy said. Filled by `Evaluating`, with the two that follow.
    pub verdict: Option<Verdict>,
    /// Rules that did not pass.
    pub reasons: Vec<Reason>,
    /// The terms that follow from it.
    pub terms: Option<ChangeTerms>,
    /// Since when the workspace is over its limit and the end of that is waited for. Filled by `NotingExcess`.
    pub over_limit_since: Option<Timestamp>,
    /// How much more it uses than it is to be left with, when it was last looked at.
    pub excess: u64,
    /// Whether the end of the excess has been waited for longer than policy allows without asking people.
    pub overdue: bool,
    /// What the layers said before. Filled by `ReadingLimits`.
    pub limits: LayerLimits,
}
