//! Commits that the store refuses permanently. Pure, a part of [`transition`](crate::transition()).
//!
//! The attempt of the slot counts as failed, and its outcome as unknown: its undo is on the trail, and a retry probes
//! first. The execution is parked when the other slots have ended. A refused commit of a timer or a message parks it
//! at once.

use super::transition::TransitionCtx;
use crate::{ActionError, Effect, MINUTE, Phase, Reason, Refusal, Step, TaskRef, Workflow};
use std::fmt::Display;

/// The error code of a result that is too large to be stored.
pub(crate) const TOO_LARGE: &str = "commit.too_large";
/// The error code of a result that the store refuses for another reason.
pub(crate) const INVALID: &str = "commit.invalid";

/// The failure of an attempt whose result cannot be stored.
pub(crate) fn commit_error(too_large: bool, why: impl Display) -> ActionError {
    ActionError::unknown(if too_large { TOO_LARGE } else { INVALID }, why)
}

fn is_refused_commit(error: &ActionError) -> bool {
    error.code == TOO_LARGE || error.code == INVALID
}

impl<W: Workflow> TransitionCtx<W> {
    /// Returns true if a slot of this visit has a result that cannot be stored.
    pub(crate) fn has_refused_commit(&self) -> bool {
        let errors = self.exec.slots.iter().filter_map(|slot| slot.settled.as_ref()?.as_ref().err());
        errors.into_iter().any(is_refused_commit)
    }

    pub(crate) fn commit_refused(&mut self, ticket: TaskRef, error: ActionError) -> Result<(), Refusal> {
        if self.check_open(ticket).is_ok() {
            self.slot_mut(ticket.slot, |slot| slot.doubt = true);
            if matches!(self.exec.phase, Phase::Compensating(_)) {
                self.close_slot(ticket.slot, Err(error));
                self.continue_unwinding();
                return Ok(());
            }
            let result = Err(error);
            self.set_undo_state(ticket.slot, &result);
            self.close_slot(ticket.slot, result);
            if let Step::Act(act) = self.step() {
                self.continue_act(&act);
            }
            return Ok(());
        }
        let unwinding = match &self.exec.phase {
            Phase::Forward => None,
            Phase::Compensating(unwinding) => Some(unwinding.clone()),
            Phase::Parked { .. } | Phase::Finished { .. } => return Err(Refusal::Stale),
        };
        if self.exec.slots.iter().any(|slot| slot.begun && slot.settled.is_none()) {
            // Open slots settle soon and lead to the same result; until then, only wake up again.
            if ticket == (TaskRef { visit: self.exec.visit, slot: TaskRef::TIMER }) {
                self.effects.push(Effect::Wake { after: MINUTE });
                return Ok(());
            }
            return Err(self.unexpected("commit_refused"));
        }
        self.park(Reason::CommitRefused, vec![error], unwinding);
        Ok(())
    }
}
