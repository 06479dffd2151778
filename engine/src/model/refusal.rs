//! Why an execution refuses an event.
//!
//! Returned by the core. Invariant: a refused event has changed nothing.

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
    /// The execution does not wait for the signal as it stands.
    #[error(
        "signal {signal:?} is not awaited in state {state} while {phase}; {}",
        awaited.map_or_else(|| "no signal is".to_owned(), |awaited| format!("the signal that is awaited now is {awaited:?}"))
    )]
    SignalNotAwaited {
        /// What was sent.
        signal: String,
        /// Where the execution stands.
        state: String,
        /// What it is doing.
        phase: String,
        /// The signal that it waits for now.
        awaited: Option<&'static str>,
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
    /// A person's word does not stand for what an action observes, or the workflow decides.
    #[error("{what}: {why}")]
    NotStatable {
        /// The action, or the field of the data.
        what: String,
        /// Why not, and what to do instead.
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
    /// Four eyes: who decides is not another person than somebody who asked or has decided.
    #[error(
        "the vote of {person} does not count as that of another person than {}: {}; {person} counts with a credential of their own, after `tenure user enrol` and `tenure login --enrol`, or after signing in through the identity provider",
        tie.with,
        tie.describe(person)
    )]
    NotSeparate {
        /// Who tried.
        person: String,
        /// What joins them.
        tie: crate::Tie,
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
    NoBreakGlass {
        /// Who tried.
        person: String,
        /// Who may.
        wanted: String,
    },
    /// Nobody destroys alone.
    #[error("{state} destroys data, and policy lets nobody decide on that alone: ask those who hold a seat")]
    BreakGlassDestroys {
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
