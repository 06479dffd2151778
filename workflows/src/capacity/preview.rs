//! Dry run: the capacity, and the first rung.

use super::CapacityExhaustion;
use engine::{Undecided, View};

/// Returns the exhaustion after its assessment: [`Workflow::plan`](engine::Workflow::plan) shows the measured capacity and the ladder. Changes nothing.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn preview(view: &mut View, asked: &CapacityExhaustion) -> Result<CapacityExhaustion, Undecided> {
    let mut tried = asked.clone();
    tried.assessed(asked.assessment().assess(view)?);
    Ok(tried)
}
