//! The script of one run: answers, faults, a crash, an interruption.

use super::scenario::Fault;
use crate::{Outcome, Reason};

/// The answer to an approval or a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// The approval is granted, or the signal arrives.
    Yes,
    /// The approval is refused.
    No,
    /// No answer: the deadline passes.
    Late,
}

/// The attempt with a fault: the `nth` of forward actions, or of undos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point {
    pub(crate) nth: usize,
    pub(crate) undo: bool,
}

/// When the process crashes: around the `nth` commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashPoint {
    /// Before the commit: nothing is stored.
    Before(usize),
    /// After the commit: everything is stored, but the caller gets no answer.
    After(usize),
}

/// The command of an operator after the `nth` commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interruption {
    Cancel(usize),
    PauseAndResume(usize),
    Terminate(usize),
    /// Cancels the oldest open child execution.
    CancelChild(usize),
}

/// The script of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Script {
    pub(crate) answers: Vec<Answer>,
    pub(crate) faults: Vec<(Point, Fault, Option<String>)>,
    pub(crate) crash_point: Option<CrashPoint>,
    pub(crate) interruption: Option<Interruption>,
    /// True to run the last due task first.
    pub(crate) backwards: bool,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunEnd {
    Finished(Outcome),
    Parked(Reason),
    /// Neither, within the limit on events; the state and the phase.
    Restless(String),
}
