//! Commands of operators: cancel, pause, resume, retry, terminate. Pure, a part of [`transition`](crate::transition).

use super::transition::TransitionCtx;
use crate::{
    ActionError, Attribution, Branch, Commitment, Event, Outcome, Phase, Refusal, Slot, Step, TrailEntry,
    UndoState, Workflow, model::definition::child::CANCEL,
};

impl<W: Workflow> TransitionCtx<W> {
    /// Starts to undo the execution. Lifts a pause, because a cancel must work in every state.
    pub(crate) fn cancel(&mut self, order: &Attribution) -> Result<(), Refusal> {
        if let Some(state) = &self.exec.pivot {
            return Err(Refusal::ForwardOnly { state: state.clone() });
        }
        let error =
            ActionError::permanent("execution.cancelled", format!("by {}: {}", order.by, order.reason));
        match &self.exec.phase {
            Phase::Compensating(_) | Phase::Parked { unwinding: Some(_), .. } => {
                return Err(Refusal::Unwinding);
            }
            Phase::Parked { .. } => self.turn_back(Some(error), Outcome::Cancelled),
            Phase::Forward if self.exec.cancelled.is_some() => {
                return Err(Refusal::Already("being cancelled"));
            }
            Phase::Forward => {
                self.exec.paused = None;
                if matches!(self.step(), Step::Act(_)) {
                    self.exec.cancelled = Some(order.by.clone());
                    self.wind_down();
                } else {
                    self.turn_back(Some(error), Outcome::Cancelled);
                }
            }
            Phase::Finished { .. } => return Err(Refusal::Finished),
        }
        Ok(())
    }

    pub(crate) fn pause(&mut self, order: Attribution) -> Result<(), Refusal> {
        match self.exec.phase {
            Phase::Parked { .. } => Err(Refusal::Already("parked")),
            Phase::Forward | Phase::Compensating(_) if self.exec.paused.is_some() => {
                Err(Refusal::Already("paused"))
            }
            Phase::Forward | Phase::Compensating(_) => {
                self.exec.paused = Some(order.by);
                Ok(())
            }
            Phase::Finished { .. } => Err(Refusal::Finished),
        }
    }

    /// Continues a paused execution: open slots, retries, rulings, signals and deadlines, in that order.
    pub(crate) fn resume(&mut self) -> Result<(), Refusal> {
        if self.exec.paused.take().is_none() {
            return Err(self.unexpected("resume_requested"));
        }
        if matches!(self.exec.phase, Phase::Compensating(_)) {
            self.ask_again_for_open_slots();
            self.continue_unwinding();
            return Ok(());
        }
        match self.step() {
            Step::Act(act) => {
                self.ask_again_for_open_slots();
                self.continue_act(&act);
            }
            Step::Approval(_) => self.follow_ruling(),
            Step::Wait(wait) => {
                let before = self.exec.visit;
                self.follow_signals();
                if self.exec.visit == before {
                    self.follow_deadline(&wait);
                }
            }
            Step::Choose(_) | Step::End(_) => {}
        }
        Ok(())
    }

    /// Ends a wait whose signal and deadline lead to the same state: that state checks for itself, so it can check
    /// now.
    fn retry_now(&mut self) -> bool {
        let Step::Wait(wait) = self.step() else { return false };
        let looks = self.forward() && wait.signal.is_some() && wait.then == wait.expired;
        if looks {
            self.enter(wait.expired, Some(wait.deadline_label()));
        }
        looks
    }

    pub(crate) fn retry(&mut self) -> Result<(), Refusal> {
        match self.exec.phase.clone() {
            Phase::Parked { unwinding: Some(unwinding), .. } => {
                self.exec.phase = Phase::Compensating(unwinding);
                self.unwind_next();
            }
            Phase::Parked { unwinding: None, .. } => {
                self.exec.phase = Phase::Forward;
                self.exec.visit += 1;
                self.exec.since = self.at;
                self.exec.overdue = false;
                self.retry_state();
            }
            Phase::Forward | Phase::Compensating(_) if self.exec.paused.is_some() => {
                return Err(self.unexpected("retry_requested"));
            }
            Phase::Forward | Phase::Compensating(_) => {
                let open = self.ask_again_for_open_slots();
                if open == 0 && !self.retry_now() {
                    return Err(self.unexpected("retry_requested"));
                }
            }
            Phase::Finished { .. } => return Err(Refusal::Finished),
        }
        Ok(())
    }

    pub(crate) fn retry_state(&mut self) {
        let state = self.exec.state;
        let act = match self.step() {
            // Parked before it began, because it had no authorisation.
            Step::Act(_) if self.exec.slots.is_empty() => return self.enter(state, None),
            Step::Act(act) => act,
            Step::Approval(_) | Step::Wait(_) | Step::Choose(_) | Step::End(_) => {
                return self.enter(state, None);
            }
        };
        for slot in &mut self.exec.slots {
            if matches!(slot.settled, Some(Err(_))) {
                *slot = Slot { doubt: slot.doubt, slot_revision: slot.slot_revision, ..Slot::default() };
            }
        }
        if self.exec.slots.iter().all(|slot| matches!(slot.settled, Some(Ok(_)))) {
            // All slots succeeded, but their outputs could not be recorded.
            return self.continue_act(&act);
        }
        self.begin_slots(&act);
        self.schedule_wakeup(Some(act.within));
    }

    /// Returns the open children that are not on the trail, so that compensation would not cancel them.
    fn children_off_the_trail(&self) -> Vec<TrailEntry> {
        let Step::Act(act) = self.step() else { return Vec::new() };
        if act.child_type.is_none() || act.commitment == Commitment::Undone || !self.forward() {
            return Vec::new();
        }
        let slots = (0u32..).zip(self.exec.slots.iter().zip(&act.branches));
        let open = slots.filter(|(_, (slot, _))| slot.begun && slot.settled.is_none());
        let mark = |(slot, (_, branch)): (u32, (&Slot, &Branch<W>))| TrailEntry {
            state: self.exec.state_name().to_owned(),
            states_entered: self.exec.states_entered,
            slot,
            slot_revision: 0,
            undo_revision: 0,
            action: branch.action.name.to_owned(),
            undo: CANCEL.to_owned(),
            arguments: branch.action.arguments.clone(),
            fate: UndoState::Begun,
            output: None,
        };
        open.map(mark).collect()
    }

    /// Ends the execution by force. Nothing is undone; the actions that were not undone are listed. The commit that
    /// follows asks open children to cancel.
    pub(crate) fn terminate(&mut self, order: &Attribution) {
        let trail = self.exec.trail.iter().filter(|mark| mark.fate != UndoState::Undone).cloned();
        let leaks: Vec<TrailEntry> = trail.chain(self.children_off_the_trail()).collect();
        let cause =
            ActionError::permanent("execution.terminated", format!("by {}: {}", order.by, order.reason));
        self.exec.paused = None;
        self.finish(Outcome::Terminated, Some(cause), leaks);
    }

    /// Applies the only command that a finished execution accepts: the release of leftovers.
    pub(crate) fn applied_after_end(&mut self, event: Event) -> Result<(), Refusal> {
        let (command, second) = match event {
            Event::Seconded { event, by } => (*event, Some(by)),
            command => (command, None),
        };
        if !matches!(command, Event::LeftoversReleased(_)) {
            return Err(Refusal::Finished);
        }
        if let Some(person) = second.filter(|second| second == command.actor()) {
            return Err(Refusal::SamePerson { person });
        }
        self.release_leftovers()
    }

    /// Undoes what a termination left behind: the execution is open again until everything is undone. Past the pivot
    /// nothing is undone; the trail records that an operator has dealt with the leftovers.
    fn release_leftovers(&mut self) -> Result<(), Refusal> {
        let Phase::Finished { outcome: Outcome::Terminated, cause, .. } = self.exec.phase.clone() else {
            return Err(Refusal::Finished);
        };
        if !self.exec.has_leftovers() {
            return Err(Refusal::Finished);
        }
        if self.exec.pivot.is_none() {
            self.turn_back(cause, Outcome::Terminated);
            return Ok(());
        }
        for mark in self.exec.trail.iter_mut().filter(|mark| mark.needs_undo()) {
            mark.fate = UndoState::Kept;
        }
        let kept = self.exec.trail.iter().filter(|mark| mark.fate == UndoState::Kept).cloned().collect();
        self.finish(Outcome::Terminated, cause, kept);
        Ok(())
    }
}
