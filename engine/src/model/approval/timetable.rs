//! The timetable of a ballot: its reminders, its escalations, the extension and the deadline. Pure.
//!
//! It is derived only from the [`Procedure`] and the times of the ballot. A restart or a late alarm changes nothing:
//! [`Ballot::next`] returns the next event, [`Ballot::advance_to`] applies the due ones.

use crate::{ApprovalChange, ApprovalHistoryEntry, Ballot, PlanDigest, Ruling};
use std::time::Duration;
use store::Timestamp;

/// The events of a timetable. At the same moment, the earlier in this list is applied first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum TimetableEvent {
    Escalation,
    Extension,
    Deadline,
    Reminder,
}

impl Ballot {
    /// Returns the number of escalations and extensions so far. A new stage needs a new notification.
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

    /// Returns the next event of the undecided ballot, and its time.
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

    /// Applies all events that are due at `at`, except the deadline, and returns them. Missed reminders count as one.
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

    /// Replaces the seats by the next escalation. Earlier votes may be enough for them.
    fn escalate(&mut self, at: Timestamp) {
        let Some(next) = self.procedure.escalate.get(self.escalations()) else { return };
        let to = next.seats.clone();
        let from = std::mem::replace(&mut self.seats, to.clone());
        self.record_change(at, ApprovalChange::Escalated { from, to });
        if self.is_filled() {
            self.ruling = Some(Ruling::Granted);
        }
    }

    /// Replaces the plan and voids every vote on the earlier one. The deadline stays.
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
