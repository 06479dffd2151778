//! Problems (RFC 9457), and what `/problems/{code}` says of each.

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// One place where a request is wrong.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub(crate) struct Fault {
    /// The field, as a JSON pointer; empty for the whole.
    pub(crate) pointer: String,
    /// What is wrong and what to do.
    pub(crate) message: String,
    /// The line, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) line: Option<u64>,
    /// The column, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) column: Option<u64>,
}

/// A problem, as `/problems/{code}` explains it.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ProblemType {
    #[serde(rename = "type")]
    pub(crate) of: String,
    pub(crate) code: String,
    pub(crate) status: u16,
    pub(crate) title: String,
    /// What to do.
    pub(crate) remedy: String,
}

/// What was not as asked for (RFC 9457).
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what a problem writes")]
pub(crate) struct Problem {
    /// `/problems/` and the code; the address explains it.
    #[schemars(rename = "type")]
    of: String,
    title: String,
    status: u16,
    /// What is wrong in this case.
    detail: String,
    code: String,
    /// What to do.
    remedy: String,
    /// Where a document is wrong.
    #[schemars(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<Fault>>,
    #[serde(flatten)]
    more: BTreeMap<String, Value>,
}
