//! Why an execution refuses an event.
//!
//! Returned by the core. Invariant: a refused event has changed nothing.

/// Why an execution did not accept an event. Nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It has ended.
    #[error("the execution has finished")]
    Finished,
    /// It is past its pivot.
    #[error("the execution is past its point of no return ({state}) and can only go forward")]
    ForwardOnly {
        /// The state in which it passed the pivot.
        state: String,
    },
    /// The event belongs to an earlier visit.
    #[error("the event belongs to a state that has been left")]
    Stale,
    /// The state does not accept such an event.
    #[error("{event} is not expected in state {state} while {phase}")]
    Unexpected {
        /// The current state.
        state: String,
        /// The current phase.
        phase: &'static str,
        /// The event.
        event: &'static str,
    },
    /// The execution does not wait for the signal now.
    #[error(
        "signal {signal:?} is not awaited in state {state} while {phase}; {}",
        awaited.map_or_else(|| "it waits for no signal".to_owned(), |awaited| format!("it waits for {awaited:?}"))
    )]
    SignalNotAwaited {
        /// The signal.
        signal: String,
        /// The current state.
        state: String,
        /// The current phase.
        phase: String,
        /// The signal that it waits for.
        awaited: Option<&'static str>,
    },
    /// The execution is already compensating.
    #[error("the execution is already being rolled back")]
    Unwinding,
    /// The request is already in force.
    #[error("the execution is already {0}")]
    Already(&'static str),
    /// The requester cannot decide.
    #[error("{person} requested this execution and cannot decide on it: another person must")]
    OwnRequest {
        /// The requester.
        person: String,
    },
    /// The person has none of the roles of the open seats.
    #[error("{person} holds none of the roles that are still needed: {wanted}")]
    NotEntitled {
        /// The voter.
        person: String,
        /// The open seats.
        wanted: String,
    },
    /// The repair is not possible now.
    #[error("this repair is not possible: {why}")]
    Unrepairable {
        /// Why not, and what to do first.
        why: String,
    },
    /// The repair is invalid.
    #[error("{field}: {why}")]
    BadRepair {
        /// The invalid field.
        field: &'static str,
        /// The reason.
        why: String,
    },
    /// A repair cannot state an observation of an action or a decision of the workflow.
    #[error("{what}: {why}")]
    NotStatable {
        /// The action, or the field of the data.
        what: String,
        /// Why not, and what to do instead.
        why: String,
    },
    /// The person who gave a command cannot confirm it.
    #[error("{person} gave the command: another person must confirm it")]
    SamePerson {
        /// The person.
        person: String,
    },
    /// A person who acts for the requester cannot decide.
    #[error(
        "{person} has a delegation from {requester}, who requested this execution: another person must decide"
    )]
    ForRequester {
        /// The voter, or the person voted for.
        person: String,
        /// The requester.
        requester: String,
    },
    /// The voter is not separate from a requester or another voter.
    #[error(
        "{person} is not independent of {}: {}; the vote is refused; {person} can vote with a credential of their own: use `tenure user enrol` and `tenure login --enrol`, or sign in through the identity provider",
        tie.with,
        tie.describe(person)
    )]
    NotSeparate {
        /// The voter.
        person: String,
        /// The tie with the other person.
        tie: crate::Tie,
    },
    /// No delegation covers the vote.
    #[error("no active delegation allows {person} to vote for {from}; ask {from} or an admin for one")]
    NotDelegated {
        /// Who tried.
        person: String,
        /// The person voted for.
        from: String,
    },
    /// The decision needs a reason.
    #[error("reason: this decision needs a reason of at least {least} characters")]
    ReasonMissing {
        /// The shortest reason, in characters.
        least: u32,
    },
    /// Policy does not allow the person to use break-glass.
    #[error("{person} may not use break-glass here; policy allows it to: {wanted}, in their own right")]
    NoBreakGlass {
        /// The person.
        person: String,
        /// The roles that may.
        wanted: String,
    },
    /// Break-glass is not allowed for a destruction.
    #[error("{state} destroys data, and policy does not allow break-glass for that: ask the approvers")]
    BreakGlassDestroys {
        /// The state that destroys data.
        state: String,
    },
    /// There is no vote to withdraw.
    #[error("{person} has no vote to withdraw")]
    NoVote {
        /// Who tried.
        person: String,
    },
    /// The approval has expired, even if its timer has not been handled yet.
    #[error("the approval has expired; submit a new request")]
    TooLate {
        /// The deadline.
        deadline: store::Timestamp,
    },
    /// The approval is decided, and the execution is paused. A ruling never changes.
    #[error(
        "the approval is already decided ({}); the decision takes effect when the execution is resumed: resume it, or cancel it",
        ruling.name()
    )]
    Decided {
        /// The ruling.
        ruling: crate::Ruling,
    },
    /// Each person has one vote.
    #[error("{person} has already voted")]
    VotedBefore {
        /// Who tried.
        person: String,
    },
    /// The plan has changed since the voter saw it.
    #[error("the vote is for plan {offered}, but the current plan is {current}: read it and vote again")]
    PlanChanged {
        /// The digest in the vote.
        offered: String,
        /// The current digest.
        current: String,
    },
    /// An engine of another version, which can read the execution, refused the event.
    #[error("{said}")]
    Elsewhere {
        /// The code of the refusal.
        code: String,
        /// Its message.
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
            Self::SignalNotAwaited { .. } => "signal.not_awaited",
            Self::Unwinding => "execution.unwinding",
            Self::Already(_) => "execution.already",
            Self::OwnRequest { .. } => "approval.own_request",
            Self::NotEntitled { .. } => "approval.not_entitled",
            Self::Unrepairable { .. } => "repair.not_now",
            Self::BadRepair { .. } => "repair.invalid",
            Self::NotStatable { .. } => "repair.observation",
            Self::SamePerson { .. } => "repair.same_person",
            Self::ForRequester { .. } => "approval.for_requester",
            Self::NotSeparate { .. } => "approval.not_separate",
            Self::NotDelegated { .. } => "approval.not_delegated",
            Self::ReasonMissing { .. } => "approval.reason_missing",
            Self::NoBreakGlass { .. } => "approval.no_break_glass",
            Self::BreakGlassDestroys { .. } => "approval.destroys",
            Self::NoVote { .. } => "approval.no_vote",
            Self::TooLate { .. } => "approval.expired",
            Self::Decided { .. } => "approval.decided",
            Self::VotedBefore { .. } => "approval.voted_before",
            Self::PlanChanged { .. } => "approval.plan_changed",
        }
    }
}
