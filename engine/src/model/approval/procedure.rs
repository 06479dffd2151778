//! How people are asked, beside who and until when: policy's answer to silence, absence and emergency. Pure.
//!
//! An approval's timetable follows from its [`Procedure`] and its times alone, so that it is the same after a restart and
//! however late an alarm rings: [`Ballot::next`] says what comes next, [`Ballot::pass`] deals with what has come due.

use crate::{Ballot, PlanDigest, Ruling, Seat, Vote};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// What happens around an approval. The default: nothing, and what is not agreed to in time lapses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Procedure {
    /// Who is asked instead while nothing has been decided, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Escalation>,
    /// By how long the deadline is moved, once, when it passes without a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend: Option<Duration>,
    /// When those who are asked are reminded.
    #[serde(default, skip_serializing_if = "Reminders::is_none")]
    pub remind: Reminders,
    /// Who may agree alone in an emergency; without it nobody may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<BreakGlass>,
}

impl Procedure {
    /// The same, with these people asked besides at every stage: an escalation never leaves them out.
    #[must_use]
    pub fn besides(mut self, seats: &[Seat]) -> Self {
        for next in &mut self.escalate {
            next.seats.extend_from_slice(seats);
        }
        self
    }

    /// It adds nothing to seats and deadline.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Other people who are asked from some moment on, in place of those before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// This long after the approval was opened.
    pub after: Duration,
    /// Who must agree from then on; who has agreed before counts if a seat suits them.
    pub seats: Vec<Seat>,
}

/// When people are reminded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reminders {
    /// So long before the deadline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Duration>,
    /// Again and again, this long apart, from the opening on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
}

impl Reminders {
    /// Nobody is reminded.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Who may agree alone, and on what terms. What they do is reviewed afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakGlass {
    /// Any of these roles entitles to it, held in one's own right.
    pub any_of: Vec<String>,
    /// The reason has at least so many characters.
    pub reason_at_least: u32,
    /// Also for a plan that destroys data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destroys: bool,
}

/// Something that happened to an approval beside votes that stand.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Happening {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: What,
}

/// What happened to an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// Those who were asked were reminded.
    Reminded,
    /// Others were asked instead.
    Escalated {
        /// Who was asked before.
        from: Vec<Seat>,
        /// Who is asked since.
        to: Vec<Seat>,
    },
    /// The deadline was moved.
    Extended {
        /// When it was.
        from: Timestamp,
        /// When it is.
        until: Timestamp,
    },
    /// A vote was taken back.
    Withdrawn {
        /// The vote.
        vote: Box<Vote>,
        /// Who took it back: who cast it, or for whom it was cast.
        by: String,
        /// Why, in their words.
        reason: String,
    },
    /// The plan changed, and every vote on the one before it was void.
    Voided {
        /// The plan before.
        digest: PlanDigest,
        /// The votes on it.
        votes: Vec<Vote>,
    },
}

/// What a timetable holds. Of two at the same moment the earlier here comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Moment {
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
        self.history.iter().filter(|happened| matches!(happened.what, What::Escalated { .. })).count()
    }

    fn is_extended(&self) -> bool {
        self.history.iter().any(|happened| matches!(happened.what, What::Extended { .. }))
    }

    /// What comes next while nothing is decided, and when.
    pub(crate) fn next(&self) -> Option<(Timestamp, Moment)> {
        if self.ruling.is_some() {
            return None;
        }
        let reminder = self.next_reminder().map(|at| (at, Moment::Reminder));
        self.next_change().into_iter().chain(reminder).min()
    }

    fn next_change(&self) -> Option<(Timestamp, Moment)> {
        let escalation = self.procedure.escalate.get(self.escalations());
        let escalation = escalation.map(|next| (self.opened_at.after(next.after), Moment::Escalation));
        let end = match self.procedure.extend {
            Some(_) if !self.is_extended() => Moment::Extension,
            Some(_) | None => Moment::Deadline,
        };
        let end = self.deadline.map(|deadline| (deadline, end));
        escalation.into_iter().chain(end).min()
    }

    fn next_reminder(&self) -> Option<Timestamp> {
        let (deadline, remind) = (self.deadline?, &self.procedure.remind);
        let last = self.rung.unwrap_or(self.opened_at).max(self.opened_at);
        let before = remind.before.iter().filter_map(|span| deadline.0.checked_sub(millis(*span)));
        let every = remind.every.map(millis).filter(|every| *every > 0).map(|every| {
            let past = last.0.saturating_sub(self.opened_at.0) / every;
            self.opened_at.0.saturating_add(every.saturating_mul(past + 1))
        });
        before.chain(every).map(Timestamp).filter(|at| *at > last && *at < deadline).min()
    }

    /// Deals with all that has come due by `at`, but for the deadline itself; answers what it was. Reminders that were missed
    /// are one.
    pub(crate) fn pass(&mut self, at: Timestamp) -> Vec<Moment> {
        let mut passed = Vec::new();
        while let Some((due, moment)) = self.next().filter(|(due, _)| *due <= at) {
            match moment {
                Moment::Deadline => break,
                Moment::Reminder => {
                    let change = self.next_change().filter(|(change, _)| *change <= at);
                    self.rung = Some(change.map_or(at, |(change, _)| Timestamp(change.0.saturating_sub(1))));
                    self.happen(at, What::Reminded);
                }
                Moment::Escalation => {
                    self.rung = self.rung.max(Some(due));
                    self.escalate(at);
                }
                Moment::Extension => {
                    self.rung = self.rung.max(Some(due));
                    let until = due.after(self.procedure.extend.unwrap_or_default());
                    self.deadline = Some(until);
                    self.happen(at, What::Extended { from: due, until });
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
        self.happen(at, What::Escalated { from, to });
        if self.is_filled() {
            self.ruling = Some(Ruling::Granted);
        }
    }

    /// Another plan stands: every vote on the one before is void, and people are asked again until the same deadline.
    pub(crate) fn void(&mut self, digest: PlanDigest, at: Timestamp) {
        let votes = std::mem::take(&mut self.votes);
        let digest = std::mem::replace(&mut self.digest, digest);
        self.happen(at, What::Voided { digest, votes });
    }

    pub(crate) fn happen(&mut self, at: Timestamp, what: What) {
        self.history.push(Happening { at, what });
    }
}

fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
