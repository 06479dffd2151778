//! What can happen to an execution, and what it asks for in return.

use crate::{ActionError, Call, PlanDigest, Probe, Repair, Vote};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::time::Duration;
use store::Timestamp;

/// Names one slot of one visit to a state: carried by a task and brought back by its result, so that a result of a state
/// that has been left is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskRef {
    /// The execution's visit when the work was asked for.
    pub visit: u32,
    /// The slot, or [`TaskRef::TIMER`].
    pub slot: u32,
}

impl TaskRef {
    /// The slot of a state's deadline.
    pub const TIMER: u32 = u32::MAX;

    /// The alarm of an execution's promise, whatever state it is in.
    pub const ALARM: Self = Self { visit: 0, slot: u32::MAX - 1 };
}

/// Who gave a command, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribution {
    /// The person's name.
    pub by: String,
    /// In the person's words; may be empty where policy allows.
    pub reason: String,
}

/// An alarm of an approval's timetable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimetableAlarm {
    /// The execution's visit when it was set.
    pub visit: u32,
    /// When it was to ring.
    pub due: Timestamp,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Event {
    /// The execution was asked for.
    Started,
    /// An attempt ended.
    Settled {
        /// Which slot's.
        ticket: TaskRef,
        /// How.
        result: Result<Value, ActionError>,
        /// What was tried; `None` where nothing was begun.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tried: Option<AttemptRecord>,
    },
    /// A probe found out about an attempt whose outcome was unknown.
    Probed {
        /// Which slot's.
        ticket: TaskRef,
        /// What it found.
        answer: Probe<Value>,
    },
    /// Work fell due while the execution was paused, and was held back.
    Held {
        /// Which slot's.
        ticket: TaskRef,
        /// An earlier attempt may have taken effect.
        doubt: bool,
    },
    /// A person decided.
    Voted {
        /// Who, what and why.
        vote: Vote,
        /// The plan that was read.
        digest: PlanDigest,
    },
    /// A person took their vote back, before anything was decided.
    VoteWithdrawn(Attribution),
    /// Those who are asked were reminded.
    Reminded(TimetableAlarm),
    /// Others were asked instead, since nothing had been decided.
    Escalated(TimetableAlarm),
    /// The deadline of an approval was moved.
    Extended(TimetableAlarm),
    /// The deadline of a visit passed.
    DeadlinePassed {
        /// Which visit.
        visit: u32,
    },
    /// The moment passed by which the execution was promised to be over.
    Overdue,
    /// The store has refused for good what followed from an event.
    CommitRefused {
        /// The task whose event that was.
        ticket: TaskRef,
        /// Why.
        error: ActionError,
    },
    /// Something outside happened that the execution waits for, or will.
    Signalled {
        /// Its name.
        name: String,
    },
    /// A person asked to turn back.
    CancelRequested(Attribution),
    /// A person asked to stop between steps.
    PauseRequested(Attribution),
    /// A person asked to go on after a pause.
    ResumeRequested(Attribution),
    /// A person asked to try now: what is parked, or what waits for its next attempt.
    RetryRequested(Attribution),
    /// A person closed the execution by force.
    TerminateRequested(Attribution),
    /// A person had what a termination left behind taken back.
    LeftoversReleased(Attribution),
    /// A person mended what could not go on by itself.
    Repaired {
        /// How.
        repair: Repair,
        /// Who, and why.
        order: Attribution,
    },
    /// A person's command took effect because another person agreed to it.
    Seconded {
        /// The command.
        event: Box<Event>,
        /// Who agreed.
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

    /// Returns true if it stops the execution or only notes something about it. It is taken by an execution that has no room for more.
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

    /// Who caused it: a person, or the engine.
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

/// An attempt, as history keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptRecord {
    /// The action's name; of an undo, that of the action that it takes back.
    pub action: String,
    /// Whether it takes back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// Which attempt, from 1.
    pub attempt: u32,
    /// When it was begun, by the engine's clock.
    pub began: Timestamp,
}

impl AttemptRecord {
    /// The attempt that `call` describes.
    pub(crate) fn from_call(action: &str, call: &Call, began: Timestamp) -> Self {
        Self { action: action.to_owned(), undo: call.undo, attempt: call.attempt, began }
    }
}

/// One thing to be done about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// Work on a slot: its action while going forward, its undo while turning back.
    Perform {
        /// Which slot of the current visit.
        slot: u32,
        /// Not before this long from now.
        after: Duration,
    },
    /// Deliver [`Event::DeadlinePassed`] for the current visit, or what an approval's timetable has come to.
    Wake {
        /// This long from now.
        after: Duration,
    },
    /// Deliver [`Event::Overdue`].
    Alarm {
        /// Not before.
        at: Timestamp,
    },
}
