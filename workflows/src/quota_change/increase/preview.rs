//! Dry run: the decision and the steps of an increase.

use super::QuotaIncrease;
use crate::{
    ledger::choose,
    policy::PlatformPolicy,
    quota_change::{ChangePreview, Direction, QuotaRequest, change_facts, evaluate},
};
use engine::{Undecided, View};

/// Runs the decision of an increase on `request` without changes. Run it with [`engine::decide`] and discard its reads.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn preview(
    view: &mut View,
    request: &QuotaRequest,
    policy: &PlatformPolicy,
) -> Result<ChangePreview, Undecided> {
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
    Ok(ChangePreview::of(&increase, reasons))
}
