//! Dry run: the decision and the steps of a decrease.

use super::QuotaDecrease;
use crate::{
    policy::{PlatformPolicy, Reason},
    quota_change::{Direction, QuotaRequest, change_facts, evaluate},
};
use engine::{Plan, PlanDigest, Undecided, View, Workflow};
use serde::Serialize;

/// The result of a dry run.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// The reasons of policy, rule by rule.
    pub reasons: Vec<Reason>,
    /// The usage above the new quota, which must end first.
    pub excess: u64,
    /// The plan.
    pub plan: Plan,
    /// The digest that approvers would vote on.
    pub digest: PlanDigest,
}

/// Runs the decision of a decrease on `request` without changes. Run it with [`engine::decide`] and discard its reads.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn preview(
    view: &mut View,
    request: &QuotaRequest,
    policy: &PlatformPolicy,
) -> Result<Preview, Undecided> {
    let facts = change_facts(view, request, Direction::Decrease)?;
    let used = facts.standing.map_or(0, |standing| standing.used);
    let evaluation = evaluate(&facts, policy);
    let reasons = evaluation.reasons.clone();
    let mut decrease = QuotaDecrease::new(request.clone());
    decrease.evaluated(evaluation);
    let excess = used.saturating_sub(decrease.steps().allowances().1.nominal);
    let plan = decrease.plan();
    let digest = plan.digest(QuotaDecrease::NAME, QuotaDecrease::SCHEMA);
    Ok(Preview { reasons, excess, plan, digest })
}
