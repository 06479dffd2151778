//! The data of an onboarding, as it is persisted.

use crate::{
    ledger::{ClaimedNode, NodeClaim},
    placement::{CapacityShortage, Placement},
    policy::{OnboardingRequest, OnboardingTerms, Reason, Verdict},
    tenancy::NodeId,
};
use serde::{Deserialize, Serialize};

/// The request and the progress of the onboarding. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Onboarding {
    /// The request.
    pub request: OnboardingRequest,
    /// Hash of the secret for a dedicated cluster, if one was created with the request.
    pub cluster_key_hash: Option<String>,
    /// The verdict of policy. Set by `Evaluating`, with the next three.
    pub verdict: Option<Verdict>,
    /// Rules that failed or require an approval.
    pub reasons: Vec<Reason>,
    /// The terms.
    pub terms: Option<OnboardingTerms>,
    /// The nodes proposed at that time.
    pub proposal: Option<Placement>,
    /// The capacity missing at that time.
    pub short: Option<CapacityShortage>,
    /// True if the wait for capacity has lasted longer than policy allows without an approval.
    pub overdue: bool,
    /// The claimed nodes. Set by `Claiming` and `Replacing`.
    pub claim: Option<NodeClaim>,
    /// Nodes of the claim that are not prepared yet.
    pub fresh: Vec<ClaimedNode>,
    /// The previous layout of each of these nodes.
    pub layouts: Vec<String>,
    /// Nodes that the last `Qualifying` found unfit.
    pub unfit: Vec<NodeId>,
    /// Unfit nodes so far.
    pub quarantined: Vec<NodeId>,
    /// The reference under which the credentials can be fetched once; never the secret. Set by `HandingOver`.
    pub credentials: Option<String>,
    /// True if the cohort's own quota is the pool. False in requests of earlier versions, whose plans and cohorts have no pool.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cohort_has_pool: bool,
}

impl Onboarding {
    /// Creates an onboarding. For a dedicated cluster, `cluster_key_hash` is the hash of the secret that was created with the request and shown only to the
    /// requester.
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
            cohort_has_pool: true,
        }
    }
}
