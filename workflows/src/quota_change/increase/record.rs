//! The data of a quota increase, as it is persisted.

use crate::{
    ledger::{ClaimedNode, NodeClaim},
    placement::Placement,
    platform::LayerLimits,
    policy::{Reason, Verdict},
    quota_change::{ChangeTerms, QuotaRequest},
    tenancy::NodeId,
};
use serde::{Deserialize, Serialize};

/// The request and the progress of the increase. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaIncrease {
    /// The request.
    pub request: QuotaRequest,
    /// The verdict of policy. Set by `Evaluating`, with the next three.
    pub verdict: Option<Verdict>,
    /// Rules that failed or require an approval.
    pub reasons: Vec<Reason>,
    /// The terms.
    pub terms: Option<ChangeTerms>,
    /// The nodes that would be claimed, in a preview.
    pub proposal: Option<Placement>,
    /// True if the wait for capacity has lasted longer than policy allows without an approval.
    pub overdue: bool,
    /// The reserved nodes, if any were missing. Set by `Holding` and `Replacing`.
    pub claim: Option<NodeClaim>,
    /// Nodes of the claim that are not prepared yet.
    pub fresh: Vec<ClaimedNode>,
    /// The previous layout of each of these nodes.
    pub layouts: Vec<String>,
    /// Nodes that the last `Qualifying` found unfit.
    pub unfit: Vec<NodeId>,
    /// The number of unfit nodes so far.
    pub quarantined: u32,
    /// The previous values of the layers. Set by `ReadingLimits`.
    pub limits: LayerLimits,
}

impl QuotaIncrease {
    /// Creates an increase.
    #[must_use]
    pub fn new(request: QuotaRequest) -> Self {
        Self {
            request,
            verdict: None,
            reasons: Vec::new(),
            terms: None,
            proposal: None,
            overdue: false,
            claim: None,
            fresh: Vec::new(),
            layouts: Vec::new(),
            unfit: Vec::new(),
            quarantined: 0,
            limits: LayerLimits::default(),
        }
    }
}
