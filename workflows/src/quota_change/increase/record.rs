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

/// The request, and what has been learnt while serving it. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaIncrease {
    /// What is asked for.
    pub request: QuotaRequest,
    /// What policy said. Filled by `Evaluating`, with the three that follow.
    pub verdict: Option<Verdict>,
    /// Rules that did not pass.
    pub reasons: Vec<Reason>,
    /// The terms that follow from it.
    pub terms: Option<ChangeTerms>,
    /// The nodes that would be claimed, when it is previewed.
    pub proposal: Option<Placement>,
    /// Whether capacity has been waited for longer than policy allows without asking people.
    pub overdue: bool,
    /// The nodes set aside, if any were lacking. Filled by `Holding`, and by `Replacing`.
    pub claim: Option<NodeClaim>,
    /// Nodes of the claim that have not been made ready yet.
    pub fresh: Vec<ClaimedNode>,
    /// How the GPUs of each fresh node were cut up before.
    pub layouts: Vec<String>,
    /// Nodes found unfit by the last `Qualifying`.
    pub unfit: Vec<NodeId>,
    /// How many nodes were found unfit so far.
    pub quarantined: u32,
    /// What the layers said before. Filled by `ReadingLimits`.
    pub limits: LayerLimits,
}

impl QuotaIncrease {
    /// An increase that begins.
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
