//! A dry run: what an increase would decide and do, without doing it.

use super::QuotaIncrease;
use crate::{
    ledger::choose,
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
    /// What would be done.
    pub plan: Plan,
    /// What people would vote on.
    pub digest: PlanDigest,
}

/// Looks at `request` as an increase would, changing nothing. Drive it with [`engine::decide`] and drop what it read.
///
/// # Errors
/// What the view lacks.
pub fn preview(
    view: &mut View,
    request: &QuotaRequest,
    policy: &PlatformPolicy,
) -> Result<Preview, Undecided> {
    let facts = change_facts(view, request, Direction::Increase)?;
    let evaluation = evaluate(&facts, policy);
    let reasons = evaluation.reasons.clone();
    let mut increase = QuotaIncrease::new(request.clone());
    increase.evaluated(evaluation);
    let lacking = increase.terms.as_ref().is_some_and(|terms| terms.lacking.0 > 0);
    if let Some(ask) = increase.ask().filter(|_| lacking) {
        let placed = choose(view, &facts.candidates, &ask, &increase.constraints())?;
        increase.proposal = placed.ok();
    }
    let plan = increase.plan();
    let digest = plan.digest(QuotaIncrease::NAME, QuotaIncrease::SCHEMA);
    Ok(Preview { reasons, plan, digest })
}
