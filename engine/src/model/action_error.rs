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
    /// What the engine does about it.
    pub class: Class,
    /// `noun.problem`, listed with its remedy in `docs/operations.md`.
    pub code: String,
    /// For people: lower case, no full stop, no secret.
    pub message: String,
    /// What the action was addressed to asks to be left alone for so long: nothing is begun under the attempt's keys
    /// before, and it is not tried again before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The last thing that the attempt said with [`Call::heartbeat`](crate::Call::heartbeat), or an earlier one if it said nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beat: Option<String>,
    /// A limit of time was reached, and that is why there is no result or no further attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timed_out: Option<TimedOut>,
}

/// Which limit of time was reached, and by which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimedOut {
    /// The limit.
    pub limit: TimeLimit,
    /// The attempt, from 1; of the limits of a state and of a budget, how many attempts had failed.
    pub attempt: u32,
}

/// The limits of time that an attempt can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum TimeLimit {
    /// [`ActBuilder::attempt_within`](crate::ActBuilder::attempt_within): no answer came in time.
    Attempt,
    /// [`ActBuilder::heartbeat`](crate::ActBuilder::heartbeat): it gave no sign of life.
    Heartbeat,
    /// [`RetryPolicy::budget`](crate::RetryPolicy::budget): the next attempt would begin too late, and does not.
    Budget,
    /// [`ActBuilder::within`](crate::ActBuilder::within): the state was to be left by then.
    State,
}

/// The kinds of failure, by what is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Try again by the step's retry policy.
    Transient,
    /// Nothing is wrong, it is not done yet: look again after this long.
    Pending {
        /// How long to wait, at least.
        after: Duration,
    },
    /// Trying again would not help.
    Permanent,
    /// The call was sent and no answer came: it may have taken effect. The engine probes before it does anything else.
    Unknown,
}

impl ActionError {
    /// A failure that may pass by itself.
    pub fn transient(code: &str, message: impl Display) -> Self {
        Self::with_class(Class::Transient, code, message)
    }

    /// Not done yet; look again after `after`.
    pub fn pending(code: &str, after: Duration) -> Self {
        Self::with_class(Class::Pending { after }, code, "not done yet")
    }

    /// A failure that no repetition mends.
    pub fn permanent(code: &str, message: impl Display) -> Self {
        Self::with_class(Class::Permanent, code, message)
    }

    /// No answer came, and the effect may or may not have happened.
    pub fn unknown(code: &str, message: impl Display) -> Self {
        Self::with_class(Class::Unknown, code, message)
    }

    fn with_class(class: Class, code: &str, message: impl Display) -> Self {
        let message = message.to_string();
        Self { class, code: code.into(), message, retry_after: None, beat: None, timed_out: None }
    }

    /// What the action was addressed to asks to be left alone for `span`, as by `Retry-After`. For transient and pending
    /// failures.
    #[must_use]
    pub fn retry_after(self, span: Duration) -> Self {
        Self { retry_after: Some(span), ..self }
    }
}
