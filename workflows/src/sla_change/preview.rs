//! Dry run: the decision and the steps of an SLA change.

use super::{SlaChange, SlaRequest, evaluate, sla_facts};
use crate::{policy::PlatformPolicy, quota_change::ChangePreview};
use engine::{Undecided, View};

/// Runs the decision of a change on `request` without changes. Run it with [`engine::decide`] and discard its reads.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn preview(
    view: &mut View,
    request: &SlaRequest,
    policy: &PlatformPolicy,
) -> Result<ChangePreview, Undecided> {
    let facts = sla_facts(view, request)?;
    let evaluation = evaluate(&facts, policy);
    let reasons = evaluation.reasons.clone();
    let mut change = SlaChange::new(request.clone());
    change.evaluated(evaluation);
    Ok(ChangePreview::of(&change, reasons))
}
