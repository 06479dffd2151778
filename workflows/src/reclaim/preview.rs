//! What a reclaim would do, as the books stand. Nothing is changed.

use super::{Reclaim, planning, question::PlanningQuery};
use engine::{Undecided, View};

/// The reclaim as it would be once planned: [`Workflow::plan`](engine::Workflow::plan) shows who would have to give way.
///
/// # Errors
/// What the view lacks; permanent `ledger.missing` for a tenant, account or workload that there is not.
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
