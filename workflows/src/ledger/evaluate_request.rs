//! Evaluates a request: collects the facts, decides by policy, and proposes a placement.

use crate::{
    ledger::candidates,
    placement::{CapacityShortage, NodeRequest, Placement},
    policy::{
        self, ClosedName, Decision, OnboardingEvaluation, OnboardingFacts, OnboardingRequest,
        OnboardingTerms, PlatformPolicy, Preflight, Reason, Verdict,
    },
    tenancy::{Tenant, TenantState},
};
use engine::{Call, LedgerAction, Undecided, View};
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// Decides on a request by the policy in force, and stores the decision. Safe to decide again: it changes nothing else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Evaluate {
    /// The request.
    pub request: OnboardingRequest,
}

/// Result of the evaluation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestEvaluation {
    /// The verdict.
    pub verdict: Verdict,
    /// The reasons for a rejection or for the required approvals.
    pub reasons: Vec<Reason>,
    /// The terms. `None` if rejected.
    pub terms: Option<OnboardingTerms>,
    /// The nodes that would be claimed now.
    pub proposal: Option<Placement>,
    /// The missing capacity, if no nodes can be proposed.
    pub short: Option<CapacityShortage>,
}

impl LedgerAction for Evaluate {
    const NAME: &'static str = "Evaluate";
    type Output = RequestEvaluation;

    fn decide(&self, view: &mut View, call: &Call) -> Result<RequestEvaluation, Undecided> {
        let policy = policy::in_force(view)?;
        let facts = facts(view, &self.request, Some(call.execution))?;
        let evaluation = policy::evaluate(&facts, &policy);
        let mut evaluated = propose(view, &facts, &evaluation)?;
        // The stored decision has every reason; the history has only the reasons that counted.
        evaluated.reasons.retain(policy::Reason::counts);
        view.put(&decision(facts, evaluation, &policy, call.execution, view.now()))?;
        Ok(evaluated)
    }
}

/// Returns all facts for a decision on `request`. The tenant of execution `own` is not counted.
///
/// # Errors
/// The read errors of the view.
pub fn facts(
    view: &mut View,
    request: &OnboardingRequest,
    own: Option<ExecutionId>,
) -> Result<OnboardingFacts, Undecided> {
    let there = view.get::<Tenant>(request.name.as_str())?;
    let closed = there.as_ref().filter(|tenant| tenant.state == TenantState::Closed);
    let closed = closed.map(|tenant| ClosedName { at: tenant.closed_at });
    let name_in_use = there.is_some_and(|tenant| tenant.in_use() && Some(tenant.onboarded_by) != own);
    let preflight = Some(Preflight { today: policy::day(view.now()), closed });
    let mut candidates = candidates::candidates(view, &request.entitlement.gpu_model)?;
    let apart = policy::decisions::classes_apart(&policy::in_force(view)?, &policy::classes(request));
    if !apart.is_empty() {
        candidates::add_classes(view, &mut candidates, &request.name)?;
    }
    Ok(OnboardingFacts { request: request.clone(), name_in_use, candidates, preflight })
}

/// Adds the nodes that would be claimed now to an evaluation.
///
/// # Errors
/// The read errors of the view.
pub(crate) fn propose(
    view: &mut View,
    facts: &OnboardingFacts,
    evaluation: &OnboardingEvaluation,
) -> Result<RequestEvaluation, Undecided> {
    let (verdict, terms) = (evaluation.verdict, evaluation.terms.clone());
    let reasons = evaluation.reasons.clone();
    let Some(agreed) = &evaluation.terms else {
        return Ok(RequestEvaluation { verdict, reasons, terms, proposal: None, short: None });
    };
    let bought = &facts.request.entitlement;
    let ask = NodeRequest { model: bought.gpu_model.clone(), gpus: bought.gpus };
    let placed = candidates::choose(view, &facts.candidates, &ask, &agreed.constraints)?;
    let (proposal, short) = match placed {
        Ok(placement) => (Some(placement), None),
        Err(short) => (None, Some(short)),
    };
    Ok(RequestEvaluation { verdict, reasons, terms, proposal, short })
}

/// Returns the decision in its stored form.
fn decision(
    facts: OnboardingFacts,
    evaluation: OnboardingEvaluation,
    policy: &PlatformPolicy,
    execution: ExecutionId,
    at: store::Timestamp,
) -> Decision {
    Decision {
        execution,
        policy: policy.reference.clone(),
        facts_digest: facts.digest(),
        facts,
        verdict: evaluation.verdict,
        reasons: evaluation.reasons,
        at,
    }
}
