//! The phase of an execution: forward, compensating, parked or finished.

use crate::{ActionError, Outcome, TrailEntry};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// A failure, with its place and time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failure {
    /// The state.
    pub state: String,
    /// When.
    pub at: Timestamp,
    /// At most the first eight errors.
    pub errors: Vec<ActionError>,
}

/// The phase of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Running its steps.
    Forward,
    /// Undoing its steps.
    Compensating(Unwinding),
    /// Waiting for an operator.
    Parked {
        /// The reason, as a code.
        reason: Reason,
        /// Every error.
        errors: Vec<ActionError>,
        /// Since when.
        since: Timestamp,
        /// The compensation in progress, if it was compensating.
        unwinding: Option<Unwinding>,
    },
    /// Finished.
    Finished {
        /// The outcome.
        outcome: Outcome,
        /// The reason of the compensation, if there was one.
        cause: Option<ActionError>,
        /// The actions that were not undone: all of them after a termination, otherwise the ones that were kept.
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

/// A compensation in progress.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Unwinding {
    /// The reason; `None` for an end without a failure.
    pub cause: Option<ActionError>,
    /// The outcome after everything is undone.
    pub outcome: Outcome,
    /// The indices in the trail that the current slots undo.
    pub places: Vec<usize>,
}

/// Why an operator must act on an execution. `docs/operations.md` has a remedy for each.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Reason {
    /// An action that must not be repeated may have taken effect.
    OutcomeUnknown,
    /// An undo failed permanently.
    CompensationBlocked,
    /// A step past the pivot failed permanently.
    PastPivotFailure,
    /// A protecting step, such as a hold or a freeze, failed permanently, and later steps rely on it.
    ProtectionFailed,
    /// A task crashed its engine repeatedly.
    Poisoned,
    /// The result of an event cannot be stored: it is too large, or the store refuses it.
    CommitRefused,
    /// A limit of the engine was reached.
    LimitReached,
    /// It is not parked, but its promised end has passed.
    Overdue,
}
