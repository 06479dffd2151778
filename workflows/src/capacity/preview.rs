//! A dry run: what there is, and which rung would be tried first.

use super::CapacityExhaustion;
use engine::{Undecided, View};

/// The exhaustion as it would be once assessed: [`Workflow::plan`](engine::Workflow::plan) shows what was measured and the
/// ladder. Changes nothing.
///
/// # Errors
/// What the view lacks.
pub fn preview(view: &mut View, asked: &CapacityExhaustion) -> Result<CapacityExhaustion, Undecided> {
    let mut tried = asked.clone();
    tried.assessed(asked.assessment().assess(view)?);
    Ok(tried)
}
