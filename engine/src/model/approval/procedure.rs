//! The procedure of an approval: escalation, extension, reminders, break-glass.

use crate::{PlanDigest, Seat, Vote};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// The procedure of an approval. By default it is empty, and an approval that is not granted in time expires.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Procedure {
    /// The escalations while the approval is undecided, by time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub escalate: Vec<Escalation>,
    /// The length of the one extension, when the deadline passes without a decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub extend: Option<Duration>,
    /// When the approvers are reminded.
    #[serde(default, skip_serializing_if = "Reminders::is_none")]
    pub remind: Reminders,
    /// The people who may use break-glass, in an emergency. Off by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub break_glass: Option<BreakGlass>,
}

impl Procedure {
    /// Adds `seats` to every escalation, so that an escalation never removes them.
    #[must_use]
    pub fn with_extra_seats(mut self, seats: &[Seat]) -> Self {
        for next in &mut self.escalate {
            next.seats.extend_from_slice(seats);
        }
        self
    }

    /// Returns true if the procedure is empty.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        *self == Self::default()
    }
}

/// Different seats from some moment on, instead of the earlier ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Escalation {
    /// The time after the approval was opened.
    pub after: Duration,
    /// The seats from then on. Earlier votes count if they match one.
    pub seats: Vec<Seat>,
}

/// When the approvers are reminded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reminders {
    /// Times before the deadline.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub before: Vec<Duration>,
    /// The interval of repeated reminders, from the opening on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Duration>,
}

impl Reminders {
    /// Returns true if there are no reminders.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// The people who may use break-glass, and the conditions. The decision is reviewed afterwards.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakGlass {
    /// The entitled roles. The person must hold one in their own right.
    pub any_of: Vec<String>,
    /// The shortest reason, in characters.
    pub reason_at_least: u32,
    /// Also allowed for a plan that destroys data.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub destroys: bool,
}

/// A change of an approval, other than a vote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalHistoryEntry {
    /// The time of the change.
    pub at: Timestamp,
    /// The change.
    pub what: ApprovalChange,
}

/// The changes of an approval, other than votes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalChange {
    /// The approvers were reminded.
    Reminded,
    /// The seats were replaced.
    Escalated {
        /// The earlier seats.
        from: Vec<Seat>,
        /// The new seats.
        to: Vec<Seat>,
    },
    /// The deadline was moved.
    Extended {
        /// The old deadline.
        from: Timestamp,
        /// The new deadline.
        until: Timestamp,
    },
    /// A vote was withdrawn.
    Withdrawn {
        /// The vote.
        vote: Box<Vote>,
        /// The person who withdrew it: the voter, or the person it was cast for.
        by: String,
        /// The reason that this person gave.
        reason: String,
    },
    /// The plan changed, which voided all votes on the earlier plan.
    Voided {
        /// The earlier plan.
        digest: PlanDigest,
        /// The voided votes.
        votes: Vec<Vote>,
    },
}
