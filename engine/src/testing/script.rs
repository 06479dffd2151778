//! What is done to one run: answers, faults, a crash, an interruption.

use super::scenario::Fault;
use crate::{Outcome, Reason};

/// How a question, to people or to the world, is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Answer {
    /// Granted; the signal comes.
    Yes,
    /// Refused.
    No,
    /// Not at all: the deadline passes.
    Late,
}

/// Which attempt is bent: the `nth` of forward actions, or of undos.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point {
    pub(crate) nth: usize,
    pub(crate) undo: bool,
}

/// When the process dies: around the `nth` commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CrashPoint {
    /// Before it: nothing of it is kept.
    Before(usize),
    /// After it: all of it is kept, and nobody hears of it.
    After(usize),
}

/// What an operator does once the `nth` commit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Interruption {
    Cancel(usize),
    PauseAndResume(usize),
    Terminate(usize),
    /// Cancels the oldest execution that is open and was started by another.
    CancelChild(usize),
}

/// Everything that is done to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Script {
    pub(crate) answers: Vec<Answer>,
    pub(crate) faults: Vec<(Point, Fault, Option<String>)>,
    pub(crate) crash_point: Option<CrashPoint>,
    pub(crate) interruption: Option<Interruption>,
    /// Of what is due, the last is worked on first.
    pub(crate) backwards: bool,
}

/// How a run came to rest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunEnd {
    Finished(Outcome),
    Parked(Reason),
    /// Neither, within the bound on events: what it was doing.
    Restless(String),
}
