//! Problems (RFC 9457), and the explanations at `/problems/{code}`.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// A fault at one position of a request.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Fault {
    /// The field, as a JSON pointer; empty for the whole document.
    pub(crate) pointer: String,
    /// The fault and the remedy.
    pub(crate) message: String,
    /// The line, starting at 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    /// The column, starting at 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<u64>,
}

/// The explanation of a problem code.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProblemType {
    #[serde(rename = "type")]
    pub(crate) of: String,
    pub(crate) code: String,
    pub(crate) status: u16,
    pub(crate) title: String,
    /// The remedy.
    pub(crate) remedy: String,
}

/// A problem (RFC 9457).
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes the serialised form of a problem")]
pub(crate) struct Problem {
    /// `/problems/` and the code; the URL of the explanation.
    #[schemars(rename = "type")]
    of: String,
    title: String,
    status: u16,
    /// The fault in this case.
    detail: String,
    code: String,
    /// The remedy.
    remedy: String,
    /// The faults of a document, with their positions.
    #[schemars(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<Fault>>,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}
