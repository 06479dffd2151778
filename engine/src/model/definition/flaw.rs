//! The flaws that the static check finds in a workflow.

use std::fmt;

/// A flaw of a workflow, with the state or action that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Flaw {
    /// No edge leads to the state.
    Unreachable(String),
    /// No end can be reached from the state.
    DeadEnd(String),
    /// A wait has no deadline.
    NoDeadline(String),
    /// An approval has no seats.
    NoSeats(String),
    /// A step after the pivot has an undo.
    UndoAfterPivot(String),
    /// The pivot can be reached on a path without an authorisation.
    Unauthorised(String),
    /// A destruction can be reached on a path with only a waiver, without an approval.
    DestroysWithoutPeople(String),
    /// A step with a protecting action has an edge that continues without the protection.
    LeavesUnprotected(String),
    /// The kind of the state's step differs between examples.
    Inconsistent(String),
    /// Two action types, or an action and a child workflow, share this name; or the engine reserves it.
    AmbiguousAction(String),
    /// The workflow has no examples, so nothing can be checked.
    NoExamples,
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable(s) => {
                write!(f, "{s}: no edge leads to this state; remove it or add an edge to it")
            }
            Self::DeadEnd(s) => write!(f, "{s}: no end can be reached from here; add an edge towards an end"),
            Self::NoDeadline(s) => write!(f, "{s}: a wait without a deadline; add .within(..)"),
            Self::NoSeats(s) => write!(f, "{s}: an approval without seats; name who must agree"),
            Self::UndoAfterPivot(s) => {
                write!(f, "{s}: an undo after the point of no return never runs; use .forward_only()")
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
                    "{s}: destroys data, and can be reached with only a waiver; add an approval before it"
                )
            }
            Self::LeavesUnprotected(s) => {
                write!(
                    f,
                    "{s}: an action with PROTECTS, and an edge past its failure; remove .on_failure(..), .or_else(..) and .optional()"
                )
            }
            Self::Inconsistent(s) => {
                write!(f, "{s}: the kind of its step depends on the data; use two states")
            }
            Self::AmbiguousAction(action) => {
                write!(
                    f,
                    "{action}: more than one action type has this NAME, or the engine uses it; give each a unique name"
                )
            }
            Self::NoExamples => write!(f, "examples() is empty; show values that reach every action"),
        }
    }
}
