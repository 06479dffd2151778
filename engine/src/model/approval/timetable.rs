//! The timetable of a ballot: its reminders, its escalations, the extension and the deadline. Pure.
//!
//! It follows from the [`Procedure`] and the times of the ballot alone, so it is the same after a restart and however
//! late an alarm is delivered: [`Ballot::next`] says what comes next, [`Ballot::advance_to`] applies what is due.

use crate::{ApprovalChange, ApprovalHistoryEntry, Ballot, PlanDigest, Ruling};
use std::time::Duration;
use store::Timestamp;

/// What a timetable holds. Of two at the same moment the earlier here comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimetableEvent {
    Escalation,
    Extension,
    Deadline,
    Reminder,
}

impl Ballot {
    /// Who has been asked in turn, and how often the deadline was moved: counts what makes the question another one.
    #[must_use]
    pub fn stage(&self) -> usize {
        self.escalations() + usize::from(self.is_extended())
    }

    fn escalations(&self) -> usize {
        self.history
            .iter()
            .filter(|happened| matches!(happened.what, ApprovalChange::Escalated { .. }))
            .count()
    }

    fn is_extended(&self) -> bool {
        self.history.iter().any(|happened| matches!(happened.what, ApprovalChange::Extended { .. }))
    }

    /// What comes next while nothing is decided, and when.
    pub(crate) fn next(&self) -> Option<(Timestamp, TimetableEvent)> {
        if self.ruling.is_some() {
            return None;
        }
        let reminder = self.next_reminder().map(|at| (at, TimetableEvent::Reminder));
        self.next_change().into_iter().chain(reminder).min()
    }

    fn next_change(&self) -> Option<(Timestamp, TimetableEvent)> {
        let escalation = self.procedure.escalate.get(self.escalations());
        let escalation =
            escalation.map(|next| (self.opened_at.after(next.after), TimetableEvent::Escalation));
        let end = match self.procedure.extend {
            Some(_) if !self.is_extended() => TimetableEvent::Extension,
            Some(_) | None => TimetableEvent::Deadline,
        };
        let end = self.deadline.map(|deadline| (deadline, end));
        escalation.into_iter().chain(end).min()
    }

    fn next_reminder(&self) -> Option<Timestamp> {
        let (deadline, remind) = (self.deadline?, &self.procedure.remind);
        let last = self.reminded_until.unwrap_or(self.opened_at).max(self.opened_at);
        let before = remind.before.iter().filter_map(|span| deadline.0.checked_sub(millis(*span)));
        let every = remind.every.map(millis).filter(|every| *every > 0).map(|every| {
            let past = last.0.saturating_sub(self.opened_at.0) / every;
            self.opened_at.0.saturating_add(every.saturating_mul(past + 1))
        });
        before.chain(every).map(Timestamp).filter(|at| *at > last && *at < deadline).min()
    }

    /// Deals with all that has come due by `at`, but for the deadline itself; answers what it was. Reminders that were missed
    /// are one.
    pub(crate) fn advance_to(&mut self, at: Timestamp) -> Vec<TimetableEvent> {
        let mut passed = Vec::new();
        while let Some((due, moment)) = self.next().filter(|(due, _)| *due <= at) {
            match moment {
                TimetableEvent::Deadline => break,
                TimetableEvent::Reminder => {
                    let change = self.next_change().filter(|(change, _)| *change <= at);
                    self.reminded_until =
                        Some(change.map_or(at, |(change, _)| Timestamp(change.0.saturating_sub(1))));
                    self.record_change(at, ApprovalChange::Reminded);
                }
                TimetableEvent::Escalation => {
                    self.reminded_until = self.reminded_until.max(Some(due));
                    self.escalate(at);
                }
                TimetableEvent::Extension => {
                    self.reminded_until = self.reminded_until.max(Some(due));
                    let until = due.after(self.procedure.extend.unwrap_or_default());
                    self.deadline = Some(until);
                    self.record_change(at, ApprovalChange::Extended { from: due, until });
                }
            }
            passed.push(moment);
        }
        passed
    }

    /// Asks the next people. What was agreed to before may be enough for them.
    fn escalate(&mut self, at: Timestamp) {
        let Some(next) = self.procedure.escalate.get(self.escalations()) else { return };
        let to = next.seats.clone();
        let from = std::mem::replace(&mut self.seats, to.clone());
        self.record_change(at, ApprovalChange::Escalated { from, to });
        if self.is_filled() {
            self.ruling = Some(Ruling::Granted);
        }
    }

    /// Another plan stands: every vote on the one before is void, and people are asked again until the same deadline.
    pub(crate) fn void(&mut self, digest: PlanDigest, at: Timestamp) {
        let votes = std::mem::take(&mut self.votes);
        let digest = std::mem::replace(&mut self.digest, digest);
        self.record_change(at, ApprovalChange::Voided { digest, votes });
    }

    pub(crate) fn record_change(&mut self, at: Timestamp, what: ApprovalChange) {
        self.history.push(ApprovalHistoryEntry { at, what });
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
