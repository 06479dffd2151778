//! Dry run of a reclaim on the current account. Nothing is changed.

use super::{Reclaim, planning, question::PlanningQuery};
use engine::{Undecided, View};

/// Returns the reclaim after planning: [`Workflow::plan`](engine::Workflow::plan) shows the victims.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `ledger.missing` for an unknown tenant, account or workload.
pub fn preview(view: &mut View, asked: &Reclaim) -> Result<Reclaim, Undecided> {
    let stuck = asked.stuck();
    let question = PlanningQuery {
        tenant: &asked.tenant,
        resource: &asked.resource,
        cause: &asked.cause,
        hard: false,
        stuck: &stuck,
        terms: asked.terms(),
    };
    let planned = planning::plan(view, &question)?;
    Ok(Reclaim { why: planned.why.clone(), planned: Some(planned), plans: 1, ..asked.clone() })
}
