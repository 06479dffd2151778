//! The request to a hook and its answer, the same for programs and services.

use engine::{ActionError, Class, Probe};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use workflows::platform::{CallMetadata, Hook, LOOK_AGAIN, codes};

/// The longest that a hook may ask to be left alone.
const LONGEST: Duration = Duration::from_secs(3_600);

/// What a hook is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Verb {
    /// Do it, or say how it stands if this key is known.
    Run,
    /// Say what became of this key, and change nothing.
    Probe,
    /// Take back what the step did, however far it came.
    Undo,
    /// Answer as the verb would that `undo` tells, and change nothing.
    DryRun,
    /// Show what there is, and change nothing. Asked of those alone that serve a system.
    Look,
}

/// The request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Of this protocol: 1.
    pub version: u32,
    /// The name of the hook, so that one program can stand behind several.
    pub hook: String,
    /// What is asked.
    pub verb: Verb,
    /// The idempotency key: the same on every attempt, another for the undo.
    pub key: String,
    /// On behalf of which step: the same for a run and its undo.
    pub step: String,
    /// The fencing token: of two calls for one step the one with the smaller token is late.
    pub epoch: u64,
    /// For which tenant.
    pub tenant: String,
    /// Whether it is about an undo, which tells a probe or a dry run of one.
    pub undo: bool,
    /// What the workflow gave.
    pub arguments: Value,
    /// How long there is for an answer, in milliseconds.
    pub deadline_ms: u64,
}

impl Request {
    /// The request for a hook in these circumstances.
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

    /// Whether something can have changed when no answer comes.
    #[must_use]
    pub fn changes(&self) -> bool {
        match self.verb {
            Verb::Run | Verb::Undo => true,
            Verb::Probe | Verb::DryRun | Verb::Look => false,
        }
    }

    /// What it is about, for messages.
    #[must_use]
    pub fn about(&self) -> String {
        let verb: &str = self.verb.into();
        format!("{verb} of hook {}", self.hook)
    }
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "status", rename_all = "snake_case", deny_unknown_fields)]
pub enum Answer {
    /// It is done; what was learned.
    Done {
        /// Kept in the journal, and given to later steps.
        #[serde(default)]
        output: Value,
    },
    /// It is at work.
    Pending {
        /// When to ask again.
        #[serde(default)]
        retry_after_seconds: Option<u64>,
        /// Where to ask, for a service; on the same host. Without it the same request is sent again.
        #[serde(default)]
        poll: Option<String>,
    },
    /// To a probe: it was not done.
    NotDone,
    /// To a probe: what it was done to is no more.
    Gone,
    /// To a probe: nobody can say.
    CannotTell,
}

impl Answer {
    /// The answer to a run or an undo.
    ///
    /// # Errors
    /// That it is not done yet; that it is an answer to another question.
    pub fn of_deed(self, request: &Request) -> Result<Value, ActionError> {
        match self {
            Self::Done { output } => Ok(output),
            Self::Pending { retry_after_seconds, .. } => {
                Err(ActionError::pending(codes::HOOK_PENDING, retry_delay(retry_after_seconds)))
            }
            Self::NotDone | Self::Gone | Self::CannotTell => {
                let why = format!("{}: the answer is one to a probe", request.about());
                Err(crate::http_response::unreadable(why, request.changes()))
            }
        }
    }

    /// The answer to a probe.
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

/// How long to leave a hook alone that says so or does not.
#[must_use]
pub fn retry_delay(seconds: Option<u64>) -> Duration {
    seconds.map_or(LOOK_AGAIN, Duration::from_secs).clamp(Duration::from_millis(100), LONGEST)
}

/// What a hook may say of a failure, beside its exit code or status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ErrorBody {
    /// A code of [`codes`], where one fits better than the one that the exit code or status stands for.
    pub code: String,
    /// For people.
    pub message: String,
    /// As RFC 9457 has it: what kind of problem.
    pub title: String,
    /// As RFC 9457 has it: what happened this time.
    pub detail: String,
    /// How long to leave it alone.
    pub retry_after_seconds: Option<u64>,
}

impl ErrorBody {
    /// What a body says, if it says anything.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// What it says for people, in one line.
    #[must_use]
    pub fn words(&self) -> String {
        /// The longest that is passed on, in characters.
        const LONGEST: usize = 500;
        let parts = [&self.message, &self.title, &self.detail].into_iter().filter(|part| !part.is_empty());
        let said = parts.map(String::as_str).collect::<Vec<_>>().join(": ");
        said.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(LONGEST).collect()
    }

    /// The failure with the code and the wait that are told, where they are known and fit.
    #[must_use]
    pub fn over(&self, mut error: ActionError) -> ActionError {
        if let Some((code, _)) = codes::ALL.iter().find(|(code, _)| *code == self.code) {
            error.code = (*code).to_owned();
        }
        let waits = self.retry_after_seconds.filter(|_| error.class == Class::Transient);
        if waits.is_some() { error.retry_after(retry_delay(waits)) } else { error }
    }
}
