//! A dry run: what a decrease would decide and do, without doing it.

use super::QuotaDecrease;
use crate::{
    policy::{PlatformPolicy, Reason},
    quota_change::{Direction, QuotaRequest, change_facts, evaluate},
};
use engine::{Plan, PlanDigest, Undecided, View, Workflow};
use serde::Serialize;

/// What would happen.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// What policy says, rule by rule.
    pub reasons: Vec<Reason>,
    /// How much more is used than would be left: so much has to end first.
    pub excess: u64,
    /// What would be done.
    pub plan: Plan,
    /// What people would vote on.
    pub digest: PlanDigest,
}

/// Looks at `request` as a decrease would, changing nothing. Drive it with [`engine::decide`] and drop what it read.
///
/// # Errors
/// What the view lacks.
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
