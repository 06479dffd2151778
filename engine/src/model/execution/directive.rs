//! The work of a due task.
//!
//! Returned by the core for a task that was just leased.

use crate::{ActionError, ErasedAction, Event, WhilePending};
use std::time::Duration;

/// The work of a due task.
#[derive(Debug)]
pub(crate) enum Directive<P> {
    /// Run this action.
    Run(Box<Work<P>>),
    /// Deliver this failure without running anything.
    GiveUp(ActionError),
    /// Deliver the event of a timer or an alarm.
    DeliverTimer(Event),
    /// Wait until the execution is resumed.
    AwaitResume,
    /// Remove the task.
    Discard,
}

/// The action to run, and the facts about earlier attempts.
#[derive(Debug)]
pub(crate) struct Work<P> {
    pub(crate) action: ErasedAction<P>,
    pub(crate) state: String,
    pub(crate) states_entered: u32,
    pub(crate) slot: u32,
    pub(crate) slot_revision: u32,
    pub(crate) undo: bool,
    pub(crate) undo_revision: u32,
    pub(crate) failed: u32,
    /// True if an earlier attempt may have taken effect.
    pub(crate) doubt: bool,
    /// The last note of an earlier attempt.
    pub(crate) beat: Option<String>,
    pub(crate) limits: AttemptLimits,
}

/// The time limits of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptLimits {
    pub(crate) attempt: Duration,
    pub(crate) heartbeat: Option<Duration>,
    /// The handling of permits while the action is pending.
    pub(crate) while_pending: WhilePending,
}
