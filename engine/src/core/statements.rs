//! Results that a repair must not state: observations, and decisions on documents of the store.
//!
//! Called by the repairs. Invariant: a result that a workflow treats as observed comes from the action itself.

use super::transition::TransitionCtx;
use crate::{Act, Attribution, Branch, MadeRepair, Refusal, Repair, ResultSource, Step, Workflow};
use serde_json::Value;

/// The longest error text in a recorded repair, in characters.
const ERROR_CHARS: usize = 400;
/// The most errors in a recorded repair.
const ERRORS: usize = 8;

/// Refuses a stated result for an action whose result is an observation or a decision.
pub(super) fn statable<W: Workflow>(act: &Act<W>, branch: &Branch<W>) -> Result<(), Refusal> {
    let why = match branch.action.result {
        ResultSource::Deed => return Ok(()),
        ResultSource::Observation => {
            "only the step itself can observe the result, so a repair cannot state it"
        }
        ResultSource::Decision => {
            "it decides on documents of this server, so a repair cannot state its result"
        }
    };
    let instead = if act.optional {
        "remove the cause and retry, or skip the step and accept the exception"
    } else {
        "remove the cause and retry"
    };
    Err(Refusal::NotStatable { what: branch.action.name.to_owned(), why: format!("{why}; {instead}") })
}

/// Refuses a patch of fields that hold observations or decisions.
pub(super) fn editable<W: Workflow>(patch: &Value) -> Result<(), Refusal> {
    let (Some(allowed), Some(fields)) = (W::EDITABLE, patch.as_object()) else { return Ok(()) };
    match fields.keys().find(|field| !allowed.contains(&field.as_str())) {
        None => Ok(()),
        Some(field) => Err(Refusal::NotStatable {
            what: field.clone(),
            why: format!(
                "it holds an observation or a decision and cannot be edited; editable fields of {}: {}",
                W::NAME,
                allowed.join(", ")
            ),
        }),
    }
}

impl<W: Workflow> TransitionCtx<W> {
    /// Passes a repair that is about to take effect to the workflow. If the repair is refused, the change is
    /// discarded.
    pub(super) fn note_repair(&mut self, repair: &Repair, order: &Attribution) {
        let (marked, output, evidence) = match repair {
            Repair::MarkDone { slot, output, evidence } => (Some(*slot), output.clone(), evidence.clone()),
            Repair::MarkNotDone { evidence, .. } => (None, Value::Null, evidence.clone()),
            Repair::Edit { .. } | Repair::Skip { .. } | Repair::UndoWith { .. } => {
                (None, Value::Null, String::new())
            }
        };
        let (mut action, mut arguments) = (String::new(), Value::Null);
        if self.forward_or_parked()
            && let Step::Act(act) = self.step()
            && let Some(branch) = act.branches.get(marked.unwrap_or_default() as usize)
        {
            branch.action.name.clone_into(&mut action);
            if marked.is_some() {
                arguments = branch.action.arguments.clone();
            }
        }
        let failed = self.exec.slots.iter().filter_map(|slot| slot.settled.as_ref()?.as_ref().err());
        let error = |error: &crate::ActionError| -> String {
            format!("{}: {}", error.code, error.message).chars().take(ERROR_CHARS).collect()
        };
        let errors = failed.take(ERRORS).map(error).collect();
        let made = MadeRepair {
            kind: repair.name().to_owned(),
            state: self.exec.state_name().to_owned(),
            action,
            arguments,
            output,
            evidence,
            by: order.by.clone(),
            seconded_by: self.seconded_by.clone(),
            reason: order.reason.clone(),
            at: self.at,
            errors,
        };
        self.exec.data.note_repair(made);
    }

    /// Returns false if the slots of the execution hold undos.
    fn forward_or_parked(&self) -> bool {
        match &self.exec.phase {
            crate::Phase::Forward | crate::Phase::Parked { unwinding: None, .. } => true,
            crate::Phase::Parked { unwinding: Some(_), .. }
            | crate::Phase::Compensating(_)
            | crate::Phase::Finished { .. } => false,
        }
    }
}
