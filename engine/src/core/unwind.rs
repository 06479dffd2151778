//! Compensation: undoes the trail in reverse, one entered state at a time, the slots of a state concurrently. An undo
//! that fails permanently parks the execution with all errors, after the other undos of that state have ended. Pure,
//! a part of [`transition`](crate::transition).

use super::transition::TransitionCtx;
use crate::{
    ActionError, ErasedAction, Execution, MINUTE, Outcome, Phase, Reason, Slot, Step, TaskRef, TrailEntry,
    UndoState, Unwinding, WhilePending, Workflow,
    model::{
        definition::{
            child::{CANCEL, is_kept_after_cancel},
            step::Decoder,
        },
        execution::{
            directive::{AttemptLimits, Directive, Work},
            state::state_named,
        },
    },
};
use serde_json::Value;
use strum::VariantArray as _;

impl<W: Workflow> TransitionCtx<W> {
    /// Starts to undo the trail, and ends as `outcome` afterwards. Past the pivot nothing is undone.
    pub(crate) fn turn_back(&mut self, cause: Option<ActionError>, outcome: Outcome) {
        self.effects.clear();
        self.close_ballot();
        self.exec.cancelled = None;
        self.exec.overdue = false;
        self.exec.phase = Phase::Compensating(Unwinding { cause, outcome, places: Vec::new() });
        self.unwind_next();
    }

    /// Ends the execution: at once if completed or past the pivot, otherwise after the trail is undone.
    pub(crate) fn end(&mut self, outcome: Outcome) {
        if outcome == Outcome::Completed || self.exec.pivot.is_some() {
            self.finish(outcome, None, Vec::new());
        } else {
            self.turn_back(None, outcome);
        }
    }

    /// Starts the undos of the latest state that has any, or finishes.
    pub(crate) fn unwind_next(&mut self) {
        let Phase::Compensating(unwinding) = &mut self.exec.phase else { return };
        let standing = self.exec.trail.iter().filter(|mark| mark.needs_undo());
        let Some(latest) = standing.map(|mark| mark.states_entered).max() else {
            let (cause, outcome) = (unwinding.cause.clone(), unwinding.outcome);
            let kept = self.exec.trail.iter().filter(|mark| mark.fate == UndoState::Kept).cloned().collect();
            return self.finish(outcome, cause, kept);
        };
        let before = unwinding.places.iter().zip(&self.exec.slots);
        let doubtful: Vec<usize> = before.filter(|(_, slot)| slot.doubt).map(|(place, _)| *place).collect();
        let places = self.exec.trail.iter().enumerate();
        let places = places.filter(|(_, mark)| mark.states_entered == latest && mark.needs_undo());
        unwinding.places = places.map(|(place, _)| place).collect();
        let slot = |place: &usize| Slot {
            begun: true,
            first_at: self.at,
            doubt: doubtful.contains(place),
            ..Slot::default()
        };
        self.exec.slots = unwinding.places.iter().map(slot).collect();
        self.exec.visit += 1;
        if self.exec.paused.is_none() {
            self.ask_again_for_open_slots();
        }
    }

    /// Continues when every undo of the state has settled: with an earlier state, or by parking the execution.
    pub(crate) fn continue_unwinding(&mut self) {
        if self.exec.paused.is_some() || self.exec.slots.iter().any(|slot| slot.settled.is_none()) {
            return;
        }
        let Phase::Compensating(unwinding) = self.exec.phase.clone() else { return };
        for (place, slot) in unwinding.places.iter().zip(&self.exec.slots) {
            if let (Some(mark), Some(Ok(output))) = (self.exec.trail.get_mut(*place), &slot.settled) {
                mark.fate = if mark.undo == CANCEL && is_kept_after_cancel(output) {
                    UndoState::Kept
                } else {
                    UndoState::Undone
                };
                if mark.undo == CANCEL {
                    mark.output = Some(output.clone());
                }
            }
        }
        if self.exec.slots.iter().any(|slot| matches!(slot.settled, Some(Err(_)))) {
            let errors = self.errors();
            return self.park(Reason::CompensationBlocked, errors, Some(unwinding));
        }
        self.unwind_next();
    }
}

/// Returns what to do about a slot of a compensation. The undo uses its stored arguments, not the current data.
pub(crate) fn undo_directive<W: Workflow>(
    exec: &Execution<W>,
    unwinding: &Unwinding,
    ticket: TaskRef,
    slot: &Slot,
) -> Directive<W::Platform> {
    let place = unwinding.places.get(ticket.slot as usize);
    let Some(mark) = place.and_then(|place| exec.trail.get(*place)) else { return Directive::Discard };
    match undo_of::<W>(&exec.data, mark) {
        Ok(deed) => Directive::Run(Box::new(Work {
            action: deed,
            state: mark.state.clone(),
            states_entered: mark.states_entered,
            slot: mark.slot,
            slot_revision: mark.slot_revision,
            undo: true,
            undo_revision: mark.undo_revision,
            failed: slot.failed,
            doubt: slot.doubt,
            beat: slot.beat.clone(),
            limits: AttemptLimits {
                attempt: 5 * MINUTE,
                heartbeat: None,
                while_pending: WhilePending::ReleasePermits,
            },
        })),
        Err(error) => Directive::GiveUp(error),
    }
}

/// Rebuilds an undo from the trail. Finds its type by name among the steps of the data, or of the examples if the
/// data no longer shows it (for example, a fan-out over a list that is empty now).
pub(crate) fn undo_of<W: Workflow>(
    data: &W,
    mark: &TrailEntry,
) -> Result<ErasedAction<W::Platform>, ActionError> {
    let lost = |why: String| {
        ActionError::permanent("engine.undo_lost", format!("{} of {}: {why}", mark.undo, mark.state))
    };
    let state: W::State =
        state_named(&mark.state).ok_or_else(|| lost("the state no longer exists".into()))?;
    let shown = || W::examples().iter().find_map(|example| decoder(example, state, &mark.undo));
    // A repair may have chosen the undo of another step.
    let others = || W::State::VARIANTS.iter().filter(|_| mark.undo_revision > 0);
    let other = || others().find_map(|state| decoder(data, *state, &mark.undo));
    let any = || {
        let examples = W::examples();
        others().find_map(|state| examples.iter().find_map(|example| decoder(example, *state, &mark.undo)))
    };
    let decode = decoder(data, state, &mark.undo).or_else(shown).or_else(other).or_else(any);
    let decode = decode.ok_or_else(|| lost("the workflow has no such undo in this state".into()))?;
    decode(&mark.arguments).map_err(|e| lost(e.to_string()))
}

fn decoder<W: Workflow>(data: &W, state: W::State, undo: &str) -> Option<Decoder<W::Platform>> {
    let Step::Act(act) = data.step(state) else { return None };
    act.branches
        .iter()
        .filter_map(|branch| branch.undo.as_ref())
        .find(|u| u.action.name == undo)
        .map(|u| u.decode)
}

/// Returns the undos that a compensation would run, latest first, with their arguments. For previews.
#[must_use]
pub fn pending_undos<W: Workflow>(exec: &Execution<W>) -> Vec<(String, Value)> {
    let standing = exec.trail.iter().rev().filter(|mark| mark.needs_undo());
    standing.map(|mark| (mark.undo.clone(), mark.arguments.clone())).collect()
}
