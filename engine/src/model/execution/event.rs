//! The events of an execution, and the effects that follow from them.

use crate::{ActionError, Call, PlanDigest, Probe, Repair, Vote};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use store::Timestamp;

/// Names one slot of one visit to a state. A task carries it and its result returns it, so that results of a state
/// that was left are recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRef {
    /// The execution's visit when the work was scheduled.
    pub visit: u32,
    /// The slot, or [`TaskRef::TIMER`].
    pub slot: u32,
}

impl TaskRef {
    /// The slot number of a state's deadline.
    pub const TIMER: u32 = u32::MAX;

    /// The alarm of the promised end, in any state.
    pub const ALARM: Self = Self { visit: 0, slot: u32::MAX - 1 };
}

/// The person who gave a command, and the reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// The person's name.
    pub by: String,
    /// The reason in the person's words; may be empty if policy allows.
    pub reason: String,
}

/// An alarm of an approval's timetable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimetableAlarm {
    /// The execution's visit when it was set.
    pub visit: u32,
    /// When it was due.
    pub due: Timestamp,
}

/// An event of an execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// The execution was requested.
    Started,
    /// An attempt ended.
    Settled {
        /// The slot.
        ticket: TaskRef,
        /// Its result.
        result: Result<Value, ActionError>,
        /// The attempt; `None` if none was begun.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tried: Option<AttemptRecord>,
    },
    /// A probe answered for an attempt with an unknown outcome.
    Probed {
        /// The slot.
        ticket: TaskRef,
        /// The answer.
        answer: Probe<Value>,
    },
    /// A task became due while the execution was paused, and was held back.
    Held {
        /// The slot.
        ticket: TaskRef,
        /// True if an earlier attempt may have taken effect.
        doubt: bool,
    },
    /// A person voted.
    Voted {
        /// The vote.
        vote: Vote,
        /// The plan that the voter saw.
        digest: PlanDigest,
    },
    /// A person withdrew their vote before the decision.
    VoteWithdrawn(Attribution),
    /// The approvers were reminded.
    Reminded(TimetableAlarm),
    /// The approval was escalated to other seats.
    Escalated(TimetableAlarm),
    /// The deadline of an approval was extended.
    Extended(TimetableAlarm),
    /// The deadline of a visit passed.
    DeadlinePassed {
        /// The visit.
        visit: u32,
    },
    /// The promised end passed.
    Overdue,
    /// The store refused the commit of an event permanently.
    CommitRefused {
        /// The task of that event.
        ticket: TaskRef,
        /// The reason.
        error: ActionError,
    },
    /// A signal arrived.
    Signalled {
        /// Its name.
        name: String,
    },
    /// A person requested a cancel.
    CancelRequested(Attribution),
    /// A person requested a pause between steps.
    PauseRequested(Attribution),
    /// A person ended a pause.
    ResumeRequested(Attribution),
    /// A person requested a retry of a parked step, or of a waiting one without delay.
    RetryRequested(Attribution),
    /// A person ended the execution by force.
    TerminateRequested(Attribution),
    /// A person released the leftovers of a termination, to undo them.
    LeftoversReleased(Attribution),
    /// A person repaired the execution.
    Repaired {
        /// The repair.
        repair: Repair,
        /// The person and the reason.
        order: Attribution,
    },
    /// A command took effect because a second person confirmed it.
    Seconded {
        /// The command.
        event: Box<Event>,
        /// The second person.
        by: String,
    },
}

impl Event {
    /// The event's name, as journals write it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Seconded { event, .. } => event.name(),
            other => other.into(),
        }
    }

    /// Returns true if the event stops the execution or only records a fact. An execution whose record is full
    /// accepts it.
    #[must_use]
    pub(crate) fn stops(&self) -> bool {
        match self {
            Self::Seconded { event, .. } => event.stops(),
            Self::CancelRequested(_)
            | Self::PauseRequested(_)
            | Self::TerminateRequested(_)
            | Self::CommitRefused { .. }
            | Self::Held { .. }
            | Self::Overdue => true,
            Self::Started
            | Self::Settled { .. }
            | Self::Probed { .. }
            | Self::Voted { .. }
            | Self::VoteWithdrawn(_)
            | Self::Reminded(_)
            | Self::Escalated(_)
            | Self::Extended(_)
            | Self::DeadlinePassed { .. }
            | Self::Signalled { .. }
            | Self::ResumeRequested(_)
            | Self::RetryRequested(_)
            | Self::LeftoversReleased(_)
            | Self::Repaired { .. } => false,
        }
    }

    /// Returns the person who caused it, or `engine`.
    #[must_use]
    pub fn actor(&self) -> &str {
        match self {
            Self::Voted { vote, .. } => &vote.person.name,
            Self::VoteWithdrawn(order)
            | Self::CancelRequested(order)
            | Self::PauseRequested(order)
            | Self::ResumeRequested(order)
            | Self::RetryRequested(order)
            | Self::TerminateRequested(order)
            | Self::LeftoversReleased(order)
            | Self::Repaired { order, .. } => &order.by,
            Self::Seconded { event, .. } => event.actor(),
            Self::Started
            | Self::Settled { .. }
            | Self::Probed { .. }
            | Self::Held { .. }
            | Self::Reminded(_)
            | Self::Escalated(_)
            | Self::Extended(_)
            | Self::DeadlinePassed { .. }
            | Self::Overdue
            | Self::CommitRefused { .. }
            | Self::Signalled { .. } => "engine",
        }
    }
}

/// An attempt, as the history stores it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The action's name. For an undo, the name of the action that is undone.
    pub action: String,
    /// True for an undo.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// The number of the attempt, from 1.
    pub attempt: u32,
    /// When it began, by the engine's clock.
    pub began: Timestamp,
}

impl AttemptRecord {
    /// Creates the record of the attempt that `call` describes.
    pub(crate) fn from_call(action: &str, call: &Call, began: Timestamp) -> Self {
        Self { action: action.to_owned(), undo: call.undo, attempt: call.attempt, began }
    }
}

/// An effect of an event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Run the action of a slot, or its undo during compensation.
    Perform {
        /// The slot of the current visit.
        slot: u32,
        /// The delay from now.
        after: Duration,
    },
    /// Deliver [`Event::DeadlinePassed`] for the current visit, or the due event of an approval's timetable.
    Wake {
        /// The delay from now.
        after: Duration,
    },
    /// Deliver [`Event::Overdue`].
    Alarm {
        /// The earliest time.
        at: Timestamp,
    },
}
