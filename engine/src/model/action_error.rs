//! How an action fails.
//!
//! Returned by every action and probe. Invariant: the class is chosen where the failure is known, never guessed from a
//! message.

use serde::{Deserialize, Serialize};
use std::{fmt::Display, time::Duration};

/// Why an attempt of an action has no result. The class is chosen where it is known, never guessed from a message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct ActionError {
    /// How the engine reacts.
    pub class: Class,
    /// `noun.problem`, listed with its remedy in `docs/operations.md`.
    pub code: String,
    /// For people: lower case, no full stop, no secret.
    pub message: String,
    /// How long the target asks the engine to wait. Until then the action is not retried, and no other attempt starts
    /// under the same limit keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The last note passed to [`Call::heartbeat`](crate::Call::heartbeat) by this attempt, or by an earlier one if
    /// it sent none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beat: Option<String>,
    /// The time limit that ended the attempt or prevents another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<TimedOut>,
}

/// The time limit that was reached, and by which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedOut {
    /// The limit.
    pub limit: TimeLimit,
    /// The attempt, from 1. For the limits of a state and of a budget: the number of failed attempts.
    pub attempt: u32,
}

/// The time limits of attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TimeLimit {
    /// [`ActBuilder::attempt_within`](crate::ActBuilder::attempt_within): the attempt took too long.
    Attempt,
    /// [`ActBuilder::heartbeat`](crate::ActBuilder::heartbeat): the attempt sent no heartbeat.
    Heartbeat,
    /// [`RetryPolicy::budget`](crate::RetryPolicy::budget): the next attempt would start too late.
    Budget,
    /// [`ActBuilder::within`](crate::ActBuilder::within): the deadline of the state passed.
    State,
}

/// The classes of failure. Each leads to another reaction of the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Retry by the step's retry policy.
    Transient,
    /// The work is still in progress: check again after this time.
    Pending {
        /// The shortest wait.
        after: Duration,
    },
    /// A retry would not help.
    Permanent,
    /// The call was sent and no answer came: it may have taken effect. The engine probes before it does anything
    /// else.
    Unknown,
}

impl ActionError {
    /// Creates a failure that may pass by itself.
    pub fn transient(code: &str, message: impl Display) -> Self {
        Self::with_class(Class::Transient, code, message)
    }

    /// Reports work in progress. The engine checks again after `after`.
    pub fn pending(code: &str, after: Duration) -> Self {
        Self::with_class(Class::Pending { after }, code, "not done yet")
    }

    /// Creates a failure that a retry cannot fix.
    pub fn permanent(code: &str, message: impl Display) -> Self {
        Self::with_class(Class::Permanent, code, message)
    }

    /// Creates a failure with an unknown outcome: the action may or may not have taken effect.
    pub fn unknown(code: &str, message: impl Display) -> Self {
        Self::with_class(Class::Unknown, code, message)
    }

    fn with_class(class: Class, code: &str, message: impl Display) -> Self {
        let message = message.to_string();
        Self { class, code: code.into(), message, retry_after: None, beat: None, timed_out: None }
    }

    /// Sets how long the target asks the engine to wait, as in `Retry-After`. For transient and pending failures.
    #[must_use]
    pub fn retry_after(self, span: Duration) -> Self {
        Self { retry_after: Some(span), ..self }
    }
}
