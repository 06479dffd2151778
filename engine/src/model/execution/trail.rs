//! The trail: the actions that were begun, with their undos.
//!
//! An entry is written before its action starts. Invariant: every action that may have taken effect is on the trail.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// An action that was begun, with its undo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrailEntry {
    /// The state.
    pub state: String,
    /// `Execution::states_entered` at the time.
    #[serde(rename = "entered")]
    pub states_entered: u32,
    /// The slot.
    pub slot: u32,
    /// `Slot::slot_revision` at the time.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "edition")]
    pub slot_revision: u32,
    /// Counts the repairs that chose another undo.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "ways")]
    pub undo_revision: u32,
    /// The action.
    pub action: String,
    /// Its undo.
    pub undo: String,
    /// The undo's arguments, as they were before the action started.
    pub arguments: Value,
    /// The state of the entry.
    pub fate: UndoState,
    /// The output of the action, if it returned one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// The states of a trail entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoState {
    /// The action may have run, completely, partly or not at all.
    Begun,
    /// The action succeeded.
    Done,
    /// The action failed, perhaps half way.
    Failed,
    /// The action is undone.
    Undone,
    /// It is not undone: a child that went to its end, or an action whose undo an operator skipped.
    Kept,
}

impl TrailEntry {
    /// Returns true if the undo must still run.
    #[must_use]
    pub fn needs_undo(&self) -> bool {
        match self.fate {
            UndoState::Begun | UndoState::Done | UndoState::Failed => true,
            UndoState::Undone | UndoState::Kept => false,
        }
    }
}

pub(super) fn is_zero(n: &u32) -> bool {
    *n == 0
}
