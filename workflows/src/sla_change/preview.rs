//! Dry run: the decision and the steps of an SLA change.

use super::{SlaChange, SlaRequest, evaluate, sla_facts};
use crate::policy::{PlatformPolicy, Reason};
use engine::{Plan, PlanDigest, Undecided, View, Workflow};
use serde::Serialize;

/// The result of a dry run.
#[derive(Clone, Debug, Serialize)]
pub struct Preview {
    /// The reasons of policy, rule by rule.
    pub reasons: Vec<Reason>,
    /// The plan.
    pub plan: Plan,
    /// The digest that approvers would vote on.
    pub digest: PlanDigest,
}

/// Runs the decision of a change on `request` without changes. Run it with [`engine::decide`] and discard its reads.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
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
