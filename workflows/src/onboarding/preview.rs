//! Dry run: the decision and the steps of an onboarding.

use super::Onboarding;
use crate::{
    ledger::{facts, propose},
    policy::{OnboardingEvaluation, OnboardingRequest, PlatformPolicy, evaluate},
};
use engine::{Plan, PlanDigest, Undecided, View, Workflow};
use serde::Serialize;

/// The result of a dry run.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// The decision of policy, rule by rule, with the terms.
    pub decision: OnboardingEvaluation,
    /// The plan.
    pub plan: Plan,
    /// The digest that approvers would vote on.
    pub digest: PlanDigest,
}

/// Runs the decision of an onboarding on `request` without changes. Run it with [`engine::decide`] and discard its reads.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn preview(
    view: &mut View,
    request: &OnboardingRequest,
    policy: &PlatformPolicy,
) -> Result<Preview, Undecided> {
    let facts = facts(view, request, None)?;
    let decision = evaluate(&facts, policy);
    let evaluated = propose(view, &facts, &decision)?;
    let mut onboarding = Onboarding::new(request.clone(), None);
    onboarding.evaluated(evaluated);
    let plan = onboarding.plan();
    let digest = plan.digest(Onboarding::NAME, Onboarding::SCHEMA);
    Ok(Preview { decision, plan, digest })
}
