//! The data of a quota decrease, as it is persisted.

use crate::{
    platform::LayerLimits,
    policy::{Reason, Verdict},
    quota_change::{ChangeTerms, QuotaRequest},
};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// The request and the progress of the decrease. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaDecrease {
    /// The request.
    pub request: QuotaRequest,
    /// The verdict of policy. Set by `Evaluating`, with the next two.
    pub verdict: Option<Verdict>,
    /// Rules that failed or require an approval.
    pub reasons: Vec<Reason>,
    /// The terms.
    pub terms: Option<ChangeTerms>,
    /// The time since which the workspace is above its limit and the execution waits. Set by `NotingExcess`.
    pub over_limit_since: Option<Timestamp>,
    /// The usage above the new quota, at the last check.
    pub excess: u64,
    /// True if the excess has lasted longer than policy allows without an approval.
    pub overdue: bool,
    /// The previous values of the layers. Set by `ReadingLimits`.
    pub limits: LayerLimits,
}
