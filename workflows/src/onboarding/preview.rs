//! A dry run: what an onboarding would decide and do, without doing it.

use super::Onboarding;
use crate::{
    ledger::{facts, propose},
    policy::{OnboardingEvaluation, OnboardingRequest, PlatformPolicy, evaluate},
};
use engine::{Plan, PlanDigest, Undecided, View, Workflow};
use serde::Serialize;

/// What would happen.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// What policy says, rule by rule, and the terms.
    pub decision: OnboardingEvaluation,
    /// What would be done.
    pub plan: Plan,
    /// What people would vote on.
    pub digest: PlanDigest,
}

/// Looks at `request` as an onboarding would, changing nothing. Drive it with [`engine::decide`] and drop what it read.
///
/// # Errors
/// What the view lacks.
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
