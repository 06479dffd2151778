//! What an execution is doing: going forward, compensating, parked or finished, and why.

use crate::{ActionError, Outcome, TrailEntry};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// Something that went wrong, where and when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// In which state.
    pub state: String,
    /// When.
    pub at: Timestamp,
    /// Every error, but no more than the first eight.
    pub errors: Vec<ActionError>,
}

/// What an execution is doing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Going on.
    Forward,
    /// Turning back.
    Compensating(Unwinding),
    /// Waiting for an operator.
    Parked {
        /// Why, as a code.
        reason: Reason,
        /// Why, in full: every error, none hidden by another.
        errors: Vec<ActionError>,
        /// Since when.
        since: Timestamp,
        /// What was being undone, if it was turning back.
        unwinding: Option<Unwinding>,
    },
    /// Over.
    Finished {
        /// How.
        outcome: Outcome,
        /// What made it turn back, if it did.
        cause: Option<ActionError>,
        /// What was done and not undone: all of it when ended by force, else the children that could not be taken back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        leaks: Vec<TrailEntry>,
    },
}

impl Phase {
    /// The phase's name, as lists show it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Compensating(_) => "compensating",
            Self::Parked { .. } => "parked",
            Self::Finished { .. } => "finished",
        }
    }
}

/// A way back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unwinding {
    /// What made it turn back; `None` when it ends without a failure.
    pub cause: Option<ActionError>,
    /// How it ends when all is undone.
    pub outcome: Outcome,
    /// The trail's places that the current slots undo.
    pub places: Vec<usize>,
}

/// Why an operator has to look at an execution. `docs/operations.md` says what to do about each.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// It is not known whether an action that must not be repeated took effect.
    OutcomeUnknown,
    /// An undo has failed for good.
    CompensationBlocked,
    /// A step past the point of no return has failed for good.
    PastPivotFailure,
    /// A step that protects something, such as a hold or a freeze, has failed for good, and what follows relies on it.
    ProtectionFailed,
    /// A task has brought down its engine again and again.
    Poisoned,
    /// What follows from an event cannot be stored, however often it is tried: it is too large, or the store refuses it.
    CommitRefused,
    /// A bound of the engine was reached.
    LimitReached,
    /// It is not parked, and was promised to be over by now.
    Overdue,
}
