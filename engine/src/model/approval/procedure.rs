//! What policy says about an approval beside its seats and its deadline: escalation, extension, reminders, break-glass.

use crate::{PlanDigest, Seat, Vote};
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
    pub fn with_extra_seats(mut self, seats: &[Seat]) -> Self {
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
pub struct ApprovalHistoryEntry {
    /// When.
    pub at: Timestamp,
    /// What.
    pub what: ApprovalChange,
}

/// What happened to an approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalChange {
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
