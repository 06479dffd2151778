//! Slots: begins them up to the step's bound, judges the results of attempts, and concludes the step when every slot
//! that was begun has settled. Pure, a part of [`transition`](crate::transition).

use super::transition::TransitionCtx;
use crate::{
    Act, ActionError, Class, Commitment, Effect, Execution, Failure, Outcome, Phase, Probe, Reason, Refusal,
    Repeat, RetryPolicy, SECOND, Step, TaskRef, TimeLimit, TimedOut, TrailEntry, UndoState, Workflow,
    model::definition::{child::CANCEL, step::DONE},
};
use serde_json::Value;
use std::time::Duration;
use store::Timestamp;

/// The error code of a task that has crashed its engine too often to be tried again.
pub(crate) const POISONED: &str = "task.poisoned";

/// The error code of work that is cut off by the deadline of its state.
pub(crate) const STATE_DEADLINE: &str = "step.deadline";

/// The consequences of an attempt's result.
enum Judgement {
    Again(Duration),
    Final(Result<Value, ActionError>),
}

impl<W: Workflow> TransitionCtx<W> {
    /// Begins slots up to the step's bound. Begins none after a failure, because the step will be undone.
    pub(crate) fn begin_slots(&mut self, act: &Act<W>) {
        let failing = self.exec.slots.iter().any(|slot| matches!(slot.settled, Some(Err(_))));
        let mut at_work = self.exec.slots.iter().filter(|slot| slot.begun && slot.settled.is_none()).count();
        for (number, (slot, branch)) in (0u32..).zip(self.exec.slots.iter_mut().zip(&act.branches)) {
            if slot.begun {
                continue;
            }
            if failing || at_work >= act.at_once {
                break;
            }
            self.known.encoded.forget_slot(number);
            slot.begun = true;
            slot.first_at = self.at;
            at_work += 1;
            self.effects.push(Effect::Perform { slot: number, after: Duration::ZERO });
            let slot_revision = slot.slot_revision;
            let known = |mark: &TrailEntry| {
                (mark.states_entered, mark.slot, mark.slot_revision)
                    == (self.exec.states_entered, number, slot_revision)
            };
            let Some(undo) = branch.undo.as_ref().filter(|_| !self.exec.trail.iter().any(known)) else {
                continue;
            };
            self.exec.trail.push(TrailEntry {
                state: self.exec.state.into().to_owned(),
                states_entered: self.exec.states_entered,
                slot: number,
                slot_revision,
                undo_revision: 0,
                action: branch.action.name.to_owned(),
                undo: undo.action.name.to_owned(),
                arguments: undo.action.arguments.clone(),
                fate: UndoState::Begun,
                output: None,
            });
        }
    }

    pub(crate) fn settled(
        &mut self,
        ticket: TaskRef,
        result: Result<Value, ActionError>,
    ) -> Result<(), Refusal> {
        self.check_open(ticket)?;
        if let Phase::Compensating(unwinding) = &self.exec.phase {
            let place = unwinding.places.get(ticket.slot as usize);
            let undone = place.and_then(|place| self.exec.trail.get(*place));
            let policy = match undone {
                // The undo of a child is a cancel: it takes as long as the child takes to end.
                Some(mark) if mark.undo == CANCEL => {
                    RetryPolicy { budget: Duration::MAX, ..RetryPolicy::patient() }
                }
                Some(_) | None => RetryPolicy::patient(),
            };
            match self.judge_result(ticket.slot, result, &policy) {
                Judgement::Again(after) => self.schedule_slot(ticket.slot, after),
                Judgement::Final(result) => {
                    self.close_slot(ticket.slot, result);
                    self.continue_unwinding();
                }
            }
            return Ok(());
        }
        let step = self.known.step(&self.exec);
        let Step::Act(act) = &*step else { return Err(Refusal::Stale) };
        match self.judge_result(ticket.slot, result, &act.retry) {
            Judgement::Again(after) => self.schedule_slot(ticket.slot, after),
            Judgement::Final(result) => {
                // The first success of a forward-only step passes the pivot, whatever the other slots do.
                if result.is_ok() && matches!(act.commitment, Commitment::ForwardOnly { .. }) {
                    self.pass_pivot();
                }
                self.set_undo_state(ticket.slot, &result);
                self.close_slot(ticket.slot, result);
                self.continue_act(act);
            }
        }
        Ok(())
    }

    pub(crate) fn probed(&mut self, ticket: TaskRef, answer: Probe<Value>) -> Result<(), Refusal> {
        self.check_open(ticket)?;
        // A probe means that the outcome was in doubt. Only a clear `NotDone` removes the doubt.
        self.slot_mut(ticket.slot, |slot| slot.doubt = true);
        let result = match answer {
            Probe::Done(output) => Ok(output),
            Probe::Running => Err(ActionError::pending("outcome.running", 5 * SECOND)),
            Probe::Gone => {
                Err(ActionError::permanent("outcome.gone", "the object it acted on no longer exists"))
            }
            Probe::NotDone => {
                self.slot_mut(ticket.slot, |slot| slot.doubt = false);
                self.schedule_slot(ticket.slot, Duration::ZERO);
                return Ok(());
            }
            Probe::CannotTell => {
                let error = ActionError::unknown(
                    "outcome.unknown",
                    "it may have taken effect, and the target cannot say",
                );
                if matches!(self.exec.phase, Phase::Compensating(_)) {
                    self.close_slot(ticket.slot, Err(error));
                    self.continue_unwinding();
                    return Ok(());
                }
                self.set_undo_state(ticket.slot, &Err(error.clone()));
                self.close_slot(ticket.slot, Err(error));
                if let Step::Act(act) = self.step() {
                    self.continue_act(&act);
                }
                return Ok(());
            }
        };
        self.settled(ticket, result)
    }

    /// Records the doubt about a slot that a pause holds back. Schedules it at once if the pause has been lifted
    /// meanwhile.
    pub(crate) fn hold_slot(&mut self, ticket: TaskRef, doubt: bool) -> Result<(), Refusal> {
        self.check_open(ticket)?;
        self.slot_mut(ticket.slot, |slot| slot.doubt |= doubt);
        self.schedule_slot(ticket.slot, Duration::ZERO);
        Ok(())
    }

    pub(crate) fn check_open(&self, ticket: TaskRef) -> Result<(), Refusal> {
        let working = matches!(self.exec.phase, Phase::Forward | Phase::Compensating(_));
        let open = self
            .exec
            .slots
            .get(ticket.slot as usize)
            .is_some_and(|slot| slot.begun && slot.settled.is_none());
        if working && open && ticket.visit == self.exec.visit { Ok(()) } else { Err(Refusal::Stale) }
    }

    pub(crate) fn slot_mut(&mut self, number: u32, change: impl FnOnce(&mut crate::Slot)) {
        if let Some(slot) = self.exec.slots.get_mut(number as usize) {
            self.known.encoded.forget_slot(number);
            change(slot);
        }
    }

    pub(crate) fn close_slot(&mut self, number: u32, result: Result<Value, ActionError>) {
        self.slot_mut(number, |slot| {
            slot.last = None;
            slot.settled = Some(result);
        });
    }

    /// Schedules the slot again, unless the execution is paused.
    fn schedule_slot(&mut self, slot: u32, after: Duration) {
        if self.exec.paused.is_none() {
            self.effects.push(Effect::Perform { slot, after });
        }
    }

    fn judge_result(
        &mut self,
        number: u32,
        result: Result<Value, ActionError>,
        policy: &RetryPolicy,
    ) -> Judgement {
        let error = match result {
            Ok(output) => return Judgement::Final(Ok(output)),
            Err(error) => error,
        };
        let forward = matches!(self.exec.phase, Phase::Forward);
        let stopping = forward && (self.exec.cancelled.is_some() || self.exec.overdue);
        let seed = seed(&self.exec, number);
        let at = self.at;
        self.known.encoded.forget_slot(number);
        let Some(slot) = self.exec.slots.get_mut(number as usize) else {
            return Judgement::Final(Err(error));
        };
        let mut error = error;
        if error.beat.is_some() {
            slot.beat = error.beat.clone();
        } else {
            error.beat = slot.beat.clone();
        }
        let elapsed = at.since(slot.first_at);
        slot.doubt |= error.class == Class::Unknown || error.code == POISONED;
        let wait = match error.class {
            _ if stopping => None,
            Class::Permanent => None,
            _ if policy.never.contains(&error.code) => None,
            Class::Pending { after } => Some(after),
            Class::Transient | Class::Unknown => {
                slot.failed = slot.failed.saturating_add(1);
                policy.delay(slot.failed, seed)
            }
        };
        let wait = wait.map(|wait| wait.max(error.retry_after.unwrap_or_default()));
        match wait {
            Some(wait) if elapsed.saturating_add(wait) <= policy.budget => {
                slot.last = Some(error);
                Judgement::Again(wait)
            }
            Some(_) => {
                error.timed_out = Some(TimedOut { limit: TimeLimit::Budget, attempt: slot.failed });
                Judgement::Final(Err(error))
            }
            None => Judgement::Final(Err(error)),
        }
    }

    pub(crate) fn set_undo_state(&mut self, number: u32, result: &Result<Value, ActionError>) {
        let states_entered = self.exec.states_entered;
        // The latest entry: before a repair with other arguments, the trail may hold earlier entries of the same slot.
        let mut trail = self.exec.trail.iter_mut().enumerate().rev();
        let mark = trail.find(|(_, mark)| mark.states_entered == states_entered && mark.slot == number);
        if let Some((place, mark)) = mark {
            self.known.encoded.forget_trail(place);
            mark.fate = if result.is_ok() { UndoState::Done } else { UndoState::Failed };
            // The output of a child is stored with the child.
            mark.output = result.as_ref().ok().filter(|_| mark.undo != CANCEL).cloned();
        }
    }

    /// Lets running attempts end, and begins no more slots. Schedules waiting retries at once, so that they are given
    /// up without delay.
    pub(crate) fn wind_down(&mut self) {
        self.ask_again_for_open_slots();
        if let Step::Act(act) = self.step() {
            self.continue_act(&act);
        }
    }

    /// Schedules every open slot at once, and returns their number.
    pub(crate) fn ask_again_for_open_slots(&mut self) -> usize {
        let open = (0u32..).zip(&self.exec.slots).filter(|(_, slot)| slot.begun && slot.settled.is_none());
        let asked: Vec<_> = open.map(|(slot, _)| Effect::Perform { slot, after: Duration::ZERO }).collect();
        let count = asked.len();
        self.effects.extend(asked);
        count
    }

    /// Begins more slots, or concludes the step when no slot is open.
    pub(crate) fn continue_act(&mut self, act: &Act<W>) {
        if self.exec.paused.is_some() {
            return;
        }
        if !self.exec.overdue && self.exec.cancelled.is_none() {
            self.begin_slots(act);
        }
        if self.exec.slots.iter().all(|slot| !slot.begun || slot.settled.is_some()) {
            self.conclude(act);
        }
    }

    fn conclude(&mut self, act: &Act<W>) {
        let whole = self.exec.slots.iter().all(|slot| slot.settled.is_some());
        // An unknown outcome counts more than a plain failure of another slot, which must not hide it.
        let weight = |error: &ActionError| (error.class == Class::Unknown, error.code == POISONED);
        let failed = self.exec.slots.iter().filter_map(|slot| slot.settled.as_ref()?.as_ref().err());
        let failure =
            failed.reduce(|worst, next| if weight(next) > weight(worst) { next } else { worst }).cloned();
        if let Some(by) = self.exec.cancelled.clone() {
            let crossed =
                whole && failure.is_none() && matches!(act.commitment, Commitment::ForwardOnly { .. });
            if self.exec.pivot.is_none() && !crossed {
                let error = ActionError::permanent("execution.cancelled", format!("by {by}"));
                return self.turn_back(Some(error), Outcome::Cancelled);
            }
            self.exec.cancelled = None;
        }
        match failure {
            None if whole => self.succeed(act),
            None => self.fail(act, stop_error(&self.exec)),
            Some(error) => self.fail(act, error),
        }
    }

    fn succeed(&mut self, act: &Act<W>) {
        let outputs: Vec<_> = self.exec.slots.iter().filter_map(|slot| slot.settled.clone()?.ok()).collect();
        let mut data = self.exec.data.clone();
        for (branch, output) in act.branches.iter().zip(outputs) {
            let kept = branch.record.as_ref().map_or(Ok(()), |keep| keep(&mut data, output));
            if let Err(error) = kept {
                return self.fail(act, error);
            }
        }
        if matches!(act.commitment, Commitment::ForwardOnly { .. }) {
            self.pass_pivot();
        }
        self.exec.data = data;
        self.known.forget();
        self.enter(act.next, Some(DONE.into()));
    }

    fn fail(&mut self, act: &Act<W>, error: ActionError) {
        if self.has_refused_commit() {
            return self.park(Reason::CommitRefused, self.errors(), None);
        }
        let once = |branch: &crate::Branch<W>| branch.action.repeat == Repeat::AfterProbe;
        if error.class == Class::Unknown && (self.exec.pivot.is_some() || act.branches.iter().any(once)) {
            return self.park(Reason::OutcomeUnknown, self.errors(), None);
        }
        if error.code == POISONED {
            return self.park(Reason::Poisoned, self.errors(), None);
        }
        if act.protects() {
            return self.park(Reason::ProtectionFailed, self.errors(), None);
        }
        if let Some((code, state)) = act.on_failure.iter().find(|(code, _)| *code == error.code) {
            self.note_failure();
            return self.enter(*state, Some((*code).to_owned()));
        }
        if let Some(state) = act.or_else {
            self.note_failure();
            return self.enter(state, Some("failed".into()));
        }
        if self.exec.pivot.is_some() {
            return self.park(Reason::PastPivotFailure, self.errors(), None);
        }
        self.turn_back(Some(error), Outcome::RolledBack);
    }

    pub(crate) fn note_failure(&mut self) {
        let mut errors = self.errors();
        errors.truncate(8);
        self.exec.last_failure = Some(Failure { state: self.exec.state_name().into(), at: self.at, errors });
    }

    /// Returns every error of the current slots, or the reason of the stop without one.
    pub(crate) fn errors(&self) -> Vec<ActionError> {
        let errors = self.exec.slots.iter().filter_map(|slot| slot.settled.as_ref()?.as_ref().err().cloned());
        let errors: Vec<_> = errors.collect();
        if errors.is_empty() { vec![stop_error(&self.exec)] } else { errors }
    }
}

/// The failure of work that a cancel or a deadline has stopped.
pub(crate) fn stop_error<W: Workflow>(exec: &Execution<W>) -> ActionError {
    match &exec.cancelled {
        Some(by) => ActionError::permanent("execution.cancelled", format!("by {by}")),
        None => ActionError::permanent(STATE_DEADLINE, format!("{} was not done in time", exec.state_name())),
    }
}

/// Spreads the retries of different executions and slots. Every engine computes the same value.
fn seed<W: Workflow>(exec: &Execution<W>, slot: u32) -> u64 {
    let Timestamp(since) = exec.since;
    since ^ (u64::from(exec.states_entered) << 40) ^ (u64::from(slot) << 20) ^ u64::from(exec.visit)
}
