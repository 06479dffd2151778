//! The data of an onboarding, as it is persisted.

use crate::{
    ledger::{ClaimedNode, NodeClaim},
    placement::{CapacityShortage, Placement},
    policy::{OnboardingRequest, OnboardingTerms, Reason, Verdict},
    tenancy::NodeId,
};
use serde::{Deserialize, Serialize};

/// The request, and what has been learnt while serving it. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Onboarding {
    /// What is asked for.
    pub request: OnboardingRequest,
    /// Hash of the secret for a cluster of its own, if one was drawn when the request came in.
    pub cluster_key_hash: Option<String>,
    /// What policy said. Filled by `Evaluating`, with the three that follow.
    pub verdict: Option<Verdict>,
    /// Rules that did not pass.
    pub reasons: Vec<Reason>,
    /// The terms that follow from it.
    pub terms: Option<OnboardingTerms>,
    /// The nodes proposed then.
    pub proposal: Option<Placement>,
    /// What was missing then.
    pub short: Option<CapacityShortage>,
    /// Whether capacity has been waited for longer than policy allows without asking people.
    pub overdue: bool,
    /// What was claimed. Filled by `Claiming`, and by `Replacing`.
    pub claim: Option<NodeClaim>,
    /// Nodes of the claim that have not been made ready yet.
    pub fresh: Vec<ClaimedNode>,
    /// How the GPUs of each fresh node were cut up before.
    pub layouts: Vec<String>,
    /// Nodes found unfit by the last `Qualifying`.
    pub unfit: Vec<NodeId>,
    /// Nodes found unfit so far.
    pub quarantined: Vec<NodeId>,
    /// Where the credentials can be fetched, once: a reference, never the secret. Filled by `HandingOver`.
    pub credentials: Option<String>,
}

impl Onboarding {
    /// An onboarding that begins. For a cluster of its own, `cluster_key_hash` is the hash of a secret that was drawn when
    /// the request came in, and shown to nobody else.
    #[must_use]
    pub fn new(request: OnboardingRequest, cluster_key_hash: Option<String>) -> Self {
        Self {
            request,
            cluster_key_hash,
            verdict: None,
            reasons: Vec::new(),
            terms: None,
            proposal: None,
            short: None,
            overdue: false,
            claim: None,
            fresh: Vec::new(),
            layouts: Vec::new(),
            unfit: Vec::new(),
            quarantined: Vec::new(),
            credentials: None,
        }
    }
}
