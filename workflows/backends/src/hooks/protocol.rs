//! Request and answer of a hook, the same for programs and services.

use engine::{ActionError, Class, Probe};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use workflows::platform::{CallMetadata, Hook, LOOK_AGAIN, codes};

/// The longest retry delay that a hook may request.
const LONGEST: Duration = Duration::from_secs(3_600);

/// The operation that a hook performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verb {
    /// Perform the action. For a key that is already known, report its outcome.
    Run,
    /// Report the outcome of this key. Change nothing.
    Probe,
    /// Undo the step, regardless of how far it came.
    Undo,
    /// Dry run of `run`, or of the undo if `undo` is true. Change nothing.
    DryRun,
    /// List what exists, without a change. Only hooks that serve a system receive this verb.
    Look,
}

/// The request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The protocol version: 1.
    pub version: u32,
    /// The hook's name, so that one program can implement several.
    pub hook: String,
    /// The operation.
    pub verb: Verb,
    /// The idempotency key: the same for every attempt, another one for the undo.
    pub key: String,
    /// The step that makes the call: the same for a run and its undo.
    pub step: String,
    /// The fencing token: of two calls for one step, the one with the smaller token is outdated.
    pub epoch: u64,
    /// The tenant.
    pub tenant: String,
    /// True if a probe or a dry run concerns the undo.
    pub undo: bool,
    /// The arguments from the workflow.
    pub arguments: Value,
    /// The time for an answer, in milliseconds.
    pub deadline_ms: u64,
}

impl Request {
    /// Creates the request for a hook and the metadata of its call.
    #[must_use]
    pub fn of(hook: &Hook, verb: Verb, stamp: &CallMetadata, deadline: Duration) -> Self {
        Self {
            version: 1,
            hook: hook.name.clone(),
            verb,
            key: stamp.key.clone(),
            step: stamp.step.clone(),
            epoch: stamp.epoch.0,
            tenant: hook.tenant.clone(),
            undo: stamp.undo,
            arguments: hook.arguments.clone(),
            deadline_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Returns true if the request can change something even without an answer.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self.verb {
            Verb::Run | Verb::Undo => true,
            Verb::Probe | Verb::DryRun | Verb::Look => false,
        }
    }

    /// Describes the request for error messages.
    #[must_use]
    pub fn about(&self) -> String {
        let verb: &str = self.verb.into();
        format!("{verb} of hook {}", self.hook)
    }
}

/// The answer of a hook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// The operation is complete.
    Done {
        /// The result. It is written to the journal and passed to later steps.
        #[serde(default)]
        output: Value,
    },
    /// The operation is in progress.
    Pending {
        /// The delay before the next request.
        #[serde(default)]
        retry_after_seconds: Option<u64>,
        /// For services: the address to poll, on the same host. Without it, the same request is sent again.
        #[serde(default)]
        poll: Option<String>,
    },
    /// To a probe: the operation did not take effect.
    NotDone,
    /// To a probe: the target of the operation does not exist any more.
    Gone,
    /// To a probe: the outcome is unknown.
    CannotTell,
}

impl Answer {
    /// Converts the answer to the result of a run or an undo.
    ///
    /// # Errors
    ///
    /// If the operation is still in progress, or if the answer is one to a probe.
    pub fn of_deed(self, request: &Request) -> Result<Value, ActionError> {
        match self {
            Self::Done { output } => Ok(output),
            Self::Pending { retry_after_seconds, .. } => {
                Err(ActionError::pending(codes::HOOK_PENDING, retry_delay(retry_after_seconds)))
            }
            Self::NotDone | Self::Gone | Self::CannotTell => {
                let why = format!("{}: the answer belongs to a probe", request.about());
                Err(crate::http_response::unreadable(why, request.changes()))
            }
        }
    }

    /// Converts the answer to the result of a probe.
    #[must_use]
    pub fn of_probe(self) -> Probe<Value> {
        match self {
            Self::Done { output } => Probe::Done(output),
            Self::Pending { .. } => Probe::Running,
            Self::NotDone => Probe::NotDone,
            Self::Gone => Probe::Gone,
            Self::CannotTell => Probe::CannotTell,
        }
    }
}

/// Returns the delay before the next call, within limits, with a default.
#[must_use]
pub fn retry_delay(seconds: Option<u64>) -> Duration {
    seconds.map_or(LOOK_AGAIN, Duration::from_secs).clamp(Duration::from_millis(100), LONGEST)
}

/// Details of a failure, in addition to the exit code or status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ErrorBody {
    /// One of [`codes`], if it is more precise than the code for the exit code or status.
    pub code: String,
    /// A message for operators.
    pub message: String,
    /// The title of the problem, as in RFC 9457.
    pub title: String,
    /// The details of this occurrence, as in RFC 9457.
    pub detail: String,
    /// The delay before the next call.
    pub retry_after_seconds: Option<u64>,
}

impl ErrorBody {
    /// Parses a body. Empty if the body is not valid.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Returns message, title and detail on one line.
    #[must_use]
    pub fn words(&self) -> String {
        /// The longest text that is passed on, in characters.
        const LONGEST: usize = 500;
        let parts = [&self.message, &self.title, &self.detail].into_iter().filter(|part| !part.is_empty());
        let said = parts.map(String::as_str).collect::<Vec<_>>().join(": ");
        said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST).collect()
    }

    /// Returns the error with the reported code, if known, and with the reported delay, if the error is transient.
    #[must_use]
    pub fn over(&self, mut error: ActionError) -> ActionError {
        if let Some((code, _)) = codes::ALL.iter().find(|(code, _)| *code == self.code) {
            error.code = (*code).to_owned();
        }
        let waits = self.retry_after_seconds.filter(|_| error.class == Class::Transient);
        if waits.is_some() { error.retry_after(retry_delay(waits)) } else { error }
    }
}
