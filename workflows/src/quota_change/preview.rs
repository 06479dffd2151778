//! The result of a dry run of a quota increase or an SLA change.

use crate::policy::Reason;
use engine::{Plan, PlanDigest, Workflow};
use serde::Serialize;

/// The result of a dry run.
#[derive(Clone, Debug, Serialize)]
pub struct ChangePreview {
    /// The reasons of policy, rule by rule.
    pub reasons: Vec<Reason>,
    /// The plan.
    pub plan: Plan,
    /// The digest that approvers would vote on.
    pub digest: PlanDigest,
}

impl ChangePreview {
    /// Returns the preview of `change` after its decision.
    pub(crate) fn of<W: Workflow>(change: &W, reasons: Vec<Reason>) -> Self {
        let plan = change.plan();
        let digest = plan.digest(W::NAME, W::SCHEMA);
        Self { reasons, plan, digest }
    }
}
