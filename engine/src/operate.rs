//! What operators may ask of an execution: cancel, pause, resume, retry, terminate. Pure, a part of
//! [`transition`](crate::transition).

use crate::{
    ActionError, Mark, Order, Outcome, Phase, Refusal, Slot, Step, Workflow, execution::Fate,
    transition::Turn,
};

impl<W: Workflow> Turn<W> {
    /// Turns back. Lifts a pause, since stopping must work in every state.
    pub(crate) fn cancel(&mut self, order: &Order) -> Result<(), Refusal> {
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

    pub(crate) fn pause(&mut self, order: Order) -> Result<(), Refusal> {
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

    /// Takes up what was held back: work, retries, rulings, signals and deadlines, in that order.
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

    /// Tries now: what is parked from where it stopped, with the same idempotency keys; what waits, without waiting.
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
                if open == 0 {
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
            // Parked before it began, for want of an authorisation.
            Step::Act(_) if self.exec.slots.is_empty() => return self.enter(state, None),
            Step::Act(act) => act,
            Step::Approval(_) | Step::Wait(_) | Step::Choose(_) | Step::End(_) => {
                return self.enter(state, None);
            }
        };
        for slot in &mut self.exec.slots {
            if matches!(slot.settled, Some(Err(_))) {
                *slot = Slot { doubt: slot.doubt, ..Slot::default() };
            }
        }
        if self.exec.slots.iter().all(|slot| matches!(slot.settled, Some(Ok(_)))) {
            // Everything was done, and what was learnt could not be kept.
            return self.continue_act(&act);
        }
        self.begin_slots(&act);
        self.wake(Some(act.within));
    }

    /// Closes by force. Nothing is undone; what was done is listed.
    pub(crate) fn terminate(&mut self, order: &Order) {
        let leaks: Vec<Mark> =
            self.exec.trail.iter().filter(|mark| mark.fate != Fate::Undone).cloned().collect();
        let cause =
            ActionError::permanent("execution.terminated", format!("by {}: {}", order.by, order.reason));
        self.exec.paused = None;
        self.finish(Outcome::Terminated, Some(cause), leaks);
    }
}
