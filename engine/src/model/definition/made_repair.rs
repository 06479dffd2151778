//! A repair as the workflow that was repaired takes note of it.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::Timestamp;

/// A repair that took effect, as a workflow [takes note](crate::Workflow::note_repair) of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MadeRepair {
    /// The repair's name, such as `mark_done`.
    pub kind: String,
    /// The state that was repaired.
    pub state: String,
    /// The action that was marked or left out; empty for an edit.
    pub action: String,
    /// The arguments of an action that was marked as done; null otherwise.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// The result that the person stated for it; null otherwise.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// What the person gave as evidence; empty where none is asked for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// Who made it.
    pub by: String,
    /// Who agreed to it as a second person, where policy asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<String>,
    /// Why, in the person's words.
    pub reason: String,
    /// When.
    pub at: Timestamp,
    /// What the step had failed with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}
