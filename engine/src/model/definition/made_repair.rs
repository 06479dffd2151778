//! The record of a repair that a workflow receives.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use store::Timestamp;

/// A repair that took effect, passed to [`Workflow::note_repair`](crate::Workflow::note_repair).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MadeRepair {
    /// The repair's name, such as `mark_done`.
    pub kind: String,
    /// The state that was repaired.
    pub state: String,
    /// The action that was marked or skipped; empty for an edit.
    pub action: String,
    /// The arguments of an action that was marked as done; null otherwise.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub arguments: Value,
    /// The stated result of an action that was marked as done; null otherwise.
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub output: Value,
    /// The evidence that the operator gave; empty for repairs without evidence.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub evidence: String,
    /// The operator who made the repair.
    pub by: String,
    /// The second person who confirmed it, if policy requires one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconded_by: Option<String>,
    /// The operator's reason.
    pub reason: String,
    /// The time of the repair.
    pub at: Timestamp,
    /// The errors of the step before the repair.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
}
