//! How an action fails, and how the engine refuses.

use serde::{Deserialize, Serialize};
use std::{fmt::Display, time::Duration};
use store::ExecutionId;

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
    /// The last thing that the attempt said with [`Call::beat`](crate::Call::beat), or an earlier one if it said nothing.
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
    /// [`Acting::attempt_within`](crate::Acting::attempt_within): no answer came in time.
    Attempt,
    /// [`Acting::heartbeat`](crate::Acting::heartbeat): it gave no sign of life.
    Heartbeat,
    /// [`RetryPolicy::budget`](crate::RetryPolicy::budget): the next attempt would begin too late, and does not.
    Budget,
    /// [`Acting::within`](crate::Acting::within): the state was to be left by then.
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
        Self::of(Class::Transient, code, message)
    }

    /// Not done yet; look again after `after`.
    pub fn pending(code: &str, after: Duration) -> Self {
        Self::of(Class::Pending { after }, code, "not done yet")
    }

    /// A failure that no repetition mends.
    pub fn permanent(code: &str, message: impl Display) -> Self {
        Self::of(Class::Permanent, code, message)
    }

    /// No answer came, and the effect may or may not have happened.
    pub fn unknown(code: &str, message: impl Display) -> Self {
        Self::of(Class::Unknown, code, message)
    }

    fn of(class: Class, code: &str, message: impl Display) -> Self {
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

/// Why an execution did not take an event. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has ended.
    #[error("the execution has finished")]
    Finished,
    /// It is past its pivot.
    #[error("the execution is past its point of no return ({state}) and can only go forward")]
    ForwardOnly {
        /// Where it passed.
        state: String,
    },
    /// The event belongs to a visit that is over.
    #[error("the event belongs to a state that has been left")]
    Stale,
    /// The state does not take such an event.
    #[error("{event} is not expected in state {state} while {phase}")]
    Unexpected {
        /// Where the execution stands.
        state: String,
        /// What it is doing.
        phase: &'static str,
        /// What was offered.
        event: &'static str,
    },
    /// The execution is unwinding already.
    #[error("the execution is already being rolled back")]
    Unwinding,
    /// The request is already in force.
    #[error("the execution is already {0}")]
    Already(&'static str),
    /// Four eyes: the requester does not decide.
    #[error("{person} asked for this execution and cannot decide on it: another person must")]
    OwnRequest {
        /// The requester.
        person: String,
    },
    /// No open seat of the approval is for any of the person's roles.
    #[error("{person} holds none of the roles that are still asked for: {wanted}")]
    NotEntitled {
        /// Who tried.
        person: String,
        /// The open seats.
        wanted: String,
    },
    /// It cannot be mended so, as it stands.
    #[error("it cannot be mended so: {why}")]
    Unrepairable {
        /// Why not, and what to do first.
        why: String,
    },
    /// The repair is not one that could be made.
    #[error("{field}: {why}")]
    BadRepair {
        /// What is wrong with it.
        field: &'static str,
        /// Why.
        why: String,
    },
    /// Four eyes: whoever gave a command does not agree to it as another.
    #[error("{person} gave the command: another person must agree to it")]
    SamePerson {
        /// Who tried.
        person: String,
    },
    /// Who stands for the requester does not decide either.
    #[error("{person} stands in for {requester}, who asked for this execution: another person must decide")]
    ForRequester {
        /// Who tried, or for whom.
        person: String,
        /// The requester.
        requester: String,
    },
    /// No delegation covers the vote.
    #[error("no delegation lets {person} vote for {from} at this moment; ask {from}, or an admin, for one")]
    NotDelegated {
        /// Who tried.
        person: String,
        /// For whom.
        from: String,
    },
    /// A decision that must be explained is not.
    #[error("reason: a decision like this needs one of at least {least} characters")]
    ReasonMissing {
        /// Its least length.
        least: u32,
    },
    /// Policy does not let the person decide alone.
    #[error(
        "{person} may not break the glass here, and decide alone; policy lets {wanted} do so, in their own right"
    )]
    NoGlass {
        /// Who tried.
        person: String,
        /// Who may.
        wanted: String,
    },
    /// Nobody destroys alone.
    #[error("{state} destroys data, and policy lets nobody decide on that alone: ask those who hold a seat")]
    GlassDestroys {
        /// Where data would be destroyed.
        state: String,
    },
    /// There is no vote to take back.
    #[error("{person} has no vote here that could be taken back")]
    NoVote {
        /// Who tried.
        person: String,
    },
    /// The approval has expired, whether or not its timer has been dealt with.
    #[error("the approval has expired; ask anew")]
    TooLate {
        /// When it did.
        deadline: store::Timestamp,
    },
    /// A ruling never changes. One that still stands open waits for a paused execution to be resumed.
    #[error(
        "it is decided already: {}, which takes effect when the execution is resumed: resume it, or cancel it",
        ruling.name()
    )]
    Decided {
        /// How.
        ruling: crate::Ruling,
    },
    /// One person, one vote.
    #[error("{person} has already voted")]
    VotedBefore {
        /// Who tried.
        person: String,
    },
    /// The vote was cast on another plan than the one that stands.
    #[error(
        "the vote is for plan {offered}, but the plan that stands is {current}: read it again and decide anew"
    )]
    PlanChanged {
        /// The digest voted for.
        offered: String,
        /// The digest to be voted for.
        current: String,
    },
    /// An engine of another version, which was asked because this one cannot read the execution, refused.
    #[error("{said}")]
    Elsewhere {
        /// The code of its refusal.
        code: String,
        /// Why, in its words.
        said: String,
    },
}

impl Refusal {
    /// The refusal's stable code, as problems and logs name it.
    #[must_use]
    pub fn code(&self) -> &str {
        match self {
            Self::Elsewhere { code, .. } => code,
            Self::Finished => "execution.finished",
            Self::ForwardOnly { .. } => "execution.past_pivot",
            Self::Stale => "execution.stale",
            Self::Unexpected { .. } => "execution.unexpected",
            Self::Unwinding => "execution.unwinding",
            Self::Already(_) => "execution.already",
            Self::OwnRequest { .. } => "approval.own_request",
            Self::NotEntitled { .. } => "approval.not_entitled",
            Self::Unrepairable { .. } => "repair.not_now",
            Self::BadRepair { .. } => "repair.invalid",
            Self::SamePerson { .. } => "repair.same_person",
            Self::ForRequester { .. } => "approval.for_requester",
            Self::NotDelegated { .. } => "approval.not_delegated",
            Self::ReasonMissing { .. } => "approval.reason_missing",
            Self::NoGlass { .. } => "approval.no_break_glass",
            Self::GlassDestroys { .. } => "approval.destroys",
            Self::NoVote { .. } => "approval.no_vote",
            Self::TooLate { .. } => "approval.expired",
            Self::Decided { .. } => "approval.decided",
            Self::VotedBefore { .. } => "approval.voted_before",
            Self::PlanChanged { .. } => "approval.plan_changed",
        }
    }
}

/// What a call of the [`Engine`](crate::Engine) can fail with.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The execution does not take the event.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The store failed or refused.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// There is no such execution.
    #[error("there is no execution {0}")]
    NotFound(ExecutionId),
    /// This engine does not know the workflow, or not in this schema; its executions are left alone.
    #[error(
        "this engine has no workflow {workflow} with schema {schema}; run a version of Tenure that has it"
    )]
    NoWorker {
        /// The workflow's name.
        workflow: String,
        /// The schema of the stored record.
        schema: u32,
    },
    /// The execution's body cannot be decoded.
    #[error("execution {id} is unreadable: {why}")]
    Unreadable {
        /// Which one.
        id: ExecutionId,
        /// What the decoder said.
        why: String,
    },
    /// The execution's content was destroyed with the record key of its tenant. What it was is still listed.
    #[error("execution {id} cannot be read any more: {what}")]
    Destroyed {
        /// Which one.
        id: ExecutionId,
        /// Whose key it was, and which.
        what: String,
    },
    /// The key of a request was used for a different one before.
    #[error(
        "key {key:?} was used for a different request, which became execution {execution}; use a new key"
    )]
    KeyReused {
        /// The key.
        key: String,
        /// What it started then.
        execution: ExecutionId,
    },
    /// Policy asks for a second person before this command takes effect.
    #[error("{command} needs a second person: propose it, and let another agree")]
    NeedsSecond {
        /// The command.
        command: &'static str,
    },
    /// There is no such proposal; it may have taken effect, or have been taken back.
    #[error("there is no proposal {id}")]
    NoProposal {
        /// What was asked for.
        id: String,
    },
    /// The workflow goes by the authority of a parent, and was asked for without one.
    #[error("workflow {workflow} runs only as a child of an execution that is authorised: start that one")]
    NeedsParent {
        /// The workflow's name.
        workflow: String,
    },
    /// A ledger action refused outside of any execution, as in a dry run.
    #[error(transparent)]
    Undecided(ActionError),
    /// Too many writers at once; nothing was changed.
    #[error("execution {0} changed too often while this call was being decided; try again")]
    Contended(ExecutionId),
}
