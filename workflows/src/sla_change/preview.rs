//! A dry run: what an SLA change would decide and do, without doing it.

use super::{SlaChange, SlaRequest, evaluate, sla_facts};
use crate::policy::{PlatformPolicy, Reason};
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

/// Looks at `request` as a change would, changing nothing. Drive it with [`engine::decide`] and drop what it read.
///
/// # Errors
/// What the view lacks.
pub fn preview(view: &mut View, request: &SlaRequest, policy: &PlatformPolicy) -> Result<Preview, Undecided> {
    let facts = sla_facts(view, request)?;
    let evaluation = evaluate(&facts, policy);
    let reasons = evaluation.reasons.clone();
    let mut change = SlaChange::new(request.clone());
    change.evaluated(evaluation);
    let plan = change.plan();
    let digest = plan.digest(SlaChange::NAME, SlaChange::SCHEMA);
    Ok(Preview { reasons, plan, digest })
}
