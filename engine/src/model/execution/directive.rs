//! What the worker has to do with a task that is due.
//!
//! Returned by the core for a task that was just leased.

use crate::{ActionError, ErasedAction, Event, WhilePending};
use std::time::Duration;

/// What the shell should do with a task that has fallen due.
#[derive(Debug)]
pub(crate) enum Directive<P> {
    /// Perform this.
    Run(Box<Work<P>>),
    /// Deliver this failure without performing anything.
    GiveUp(ActionError),
    /// Deliver that a deadline or a promise has passed.
    DeliverTimer(Event),
    /// Not while the execution is paused.
    AwaitResume,
    /// The task is of no use any more.
    Discard,
}

/// What is to be performed, and what is known of earlier attempts.
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
    /// An earlier attempt may have taken effect.
    pub(crate) doubt: bool,
    /// What an earlier attempt last said.
    pub(crate) beat: Option<String>,
    pub(crate) limits: AttemptLimits,
}

/// The time limits of one attempt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptLimits {
    pub(crate) attempt: Duration,
    pub(crate) heartbeat: Option<Duration>,
    /// What becomes of places at limited keys while the action is pending.
    pub(crate) while_pending: WhilePending,
}
