//! The trail: what was begun and would have to be undone.
//!
//! An entry is written before its action starts. Invariant: what may have taken effect is on the trail.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Something that has been begun and would have to be undone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrailEntry {
    /// In which state.
    pub state: String,
    /// `Execution::states_entered` at the time.
    #[serde(rename = "entered")]
    pub states_entered: u32,
    /// In which slot.
    pub slot: u32,
    /// `Slot::slot_revision` at the time.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "edition")]
    pub slot_revision: u32,
    /// How often an operator has said how else to undo it.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[serde(rename = "ways")]
    pub undo_revision: u32,
    /// The action.
    pub action: String,
    /// Its undo.
    pub undo: String,
    /// The undo's arguments, as they were before the action started.
    pub arguments: Value,
    /// What became of it.
    pub fate: UndoState,
    /// What the action returned, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Value>,
}

/// What became of an action that has an undo.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UndoState {
    /// It may have run, wholly, partly or not at all.
    Begun,
    /// It ran.
    Done,
    /// It failed, perhaps half way.
    Failed,
    /// It is undone.
    Undone,
    /// It stays: a child that went to its end, or work whose undo an operator has left out.
    Kept,
}

impl TrailEntry {
    /// Its undo has still to be run.
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
