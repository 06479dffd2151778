//! Deadlines of states, the promised end of an execution, and signals. Pure, a part of
//! [`transition`](crate::transition()).
//!
//! A pause delays the consequence of an event, not the event itself: on resume, the first event of the pause counts.

use super::transition::TransitionCtx;
use crate::{
    Effect, Phase, Refusal, Ruling, Step, Wait, Workflow, model::approval::timetable::TimetableEvent,
};
use std::time::Duration;

impl<W: Workflow> TransitionCtx<W> {
    pub(crate) fn deadline_passed(&mut self, visit: u32) -> Result<(), Refusal> {
        if visit != self.exec.visit || !self.forward() {
            return Err(Refusal::Stale);
        }
        if let Some(left) = self.time_left() {
            // The clock has gone back since the timer was due, or the clock of another engine is ahead: set the timer
            // again.
            self.schedule_wakeup(Some(left));
            return Ok(());
        }
        match self.step() {
            Step::Approval(_) => {
                // Earlier parts of the timetable apply first, and may have moved the deadline.
                if !self.catch_up() {
                    let ballot = self.exec.ballot.as_mut().ok_or(Refusal::Stale)?;
                    match ballot.next() {
                        Some((_, TimetableEvent::Deadline)) => ballot.ruling = Some(Ruling::Expired),
                        None => {}
                        Some((
                            _,
                            TimetableEvent::Escalation | TimetableEvent::Extension | TimetableEvent::Reminder,
                        )) => {
                            return Err(Refusal::Stale);
                        }
                    }
                }
                self.follow_ruling();
            }
            Step::Wait(wait) => {
                self.exec.overdue = true;
                self.follow_deadline(&wait);
            }
            Step::Act(_) => {
                self.exec.overdue = true;
                self.wind_down();
            }
            Step::Choose(_) | Step::End(_) => return Err(self.unexpected("deadline_passed")),
        }
        Ok(())
    }

    /// Returns the time left until the state's deadline by the time of this event, or `None` if it has passed.
    fn time_left(&self) -> Option<Duration> {
        let since = self.exec.since;
        let deadline = match self.step() {
            Step::Approval(_) => self.exec.ballot.as_ref()?.deadline?,
            Step::Wait(wait) => since.after(wait.within?),
            Step::Act(act) => since.after(act.within),
            Step::Choose(_) | Step::End(_) => return None,
        };
        (self.at < deadline).then(|| deadline.since(self.at))
    }

    pub(crate) fn follow_deadline(&mut self, wait: &Wait<W::State>) {
        if self.exec.overdue && self.exec.paused.is_none() {
            self.enter(wait.expired, Some(wait.deadline_label()));
        }
    }

    pub(crate) fn overdue(&mut self) -> Result<(), Refusal> {
        match self.exec.promised {
            Some(promised) if promised <= self.at && !self.exec.promise_missed => {
                self.exec.promise_missed = true
            }
            // The clock has gone back since the alarm was due: set it again, or a missed promise would go unnoticed.
            Some(promised) if !self.exec.promise_missed => self.effects.push(Effect::Alarm { at: promised }),
            Some(_) | None => return Err(Refusal::Stale),
        }
        Ok(())
    }

    /// Sets the alarm for the promised end.
    pub(crate) fn set_promise_alarm(&mut self) {
        let open = !matches!(self.exec.phase, Phase::Finished { .. });
        let promised = self.exec.data.promised_by().filter(|_| open);
        if promised == self.exec.promised {
            return;
        }
        (self.exec.promised, self.exec.promise_missed) = (promised, promised.is_some_and(|by| by <= self.at));
        self.effects.extend(promised.filter(|by| *by > self.at).map(|at| Effect::Alarm { at }));
    }

    pub(crate) fn signalled(&mut self, name: String) {
        self.exec.signals.insert(name);
        self.follow_signals();
    }

    pub(crate) fn follow_signals(&mut self) {
        let Step::Wait(wait) = self.step() else { return };
        let ready = self.forward() && self.exec.paused.is_none();
        // Signals from before the state were removed or used when it was entered.
        if ready && wait.signal.is_some_and(|name| self.exec.signals.remove(name)) {
            self.enter(wait.then, Some(wait.signal_label()));
        }
    }
}
