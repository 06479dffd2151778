//! What the static check finds wrong with a workflow.

use std::fmt;

/// What is wrong with which state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// No way leads there.
    Unreachable(String),
    /// No end can be reached from there.
    DeadEnd(String),
    /// It waits, and does not say until when at the latest.
    NoDeadline(String),
    /// An approval that nobody has to give.
    NoSeats(String),
    /// It pushes a compensation although the point of no return lies behind.
    UndoAfterPivot(String),
    /// It is past the point of no return on a path on which nobody authorised the plan.
    Unauthorised(String),
    /// It destroys data on a path where only a waiver, and no person, authorised it.
    DestroysWithoutPeople(String),
    /// A step that protects something has a way out that leads on without the protection.
    LeavesUnprotected(String),
    /// Two states, or the same state in two examples, disagree about what the state does.
    Inconsistent(String),
    /// Two action types, or an action and a child workflow, share this name; or the engine reserves it.
    AmbiguousAction(String),
    /// The workflow shows no example, so nothing can be checked.
    NoExamples,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(s) => write!(f, "{s}: no way leads to this state; remove it, or lead to it"),
            Self::DeadEnd(s) => write!(f, "{s}: no end can be reached from here; add a way out"),
            Self::NoDeadline(s) => write!(f, "{s}: a wait without a deadline; say .within(..)"),
            Self::NoSeats(s) => write!(f, "{s}: an approval without seats; name who must agree"),
            Self::UndoAfterPivot(s) => {
                write!(f, "{s}: an undo after the point of no return would never run; say .forward_only()")
            }
            Self::Unauthorised(s) => {
                write!(
                    f,
                    "{s}: a point of no return that can be reached without an approval or a waiver, its own or a child's"
                )
            }
            Self::DestroysWithoutPeople(s) => {
                write!(
                    f,
                    "{s}: destroys data, and can be reached on a waiver alone; lead through an approval"
                )
            }
            Self::LeavesUnprotected(s) => {
                write!(
                    f,
                    "{s}: an action with PROTECTS, and a way past its failure; remove .on_failure(..), .or_else(..) and .optional()"
                )
            }
            Self::Inconsistent(s) => {
                write!(f, "{s}: what kind of step it is depends on the data; use two states")
            }
            Self::AmbiguousAction(action) => {
                write!(
                    f,
                    "{action}: more than one action type has this NAME, or the engine uses it; give each its own"
                )
            }
            Self::NoExamples => write!(f, "examples() is empty; show values that reach every action"),
        }
    }
}
