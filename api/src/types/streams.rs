//! What streams tell, each event by its name.

#![expect(dead_code, reason = "describes what streams write as text")]

use super::{
    approvals::Approval,
    executions::{Line, Row},
};
use schemars::JsonSchema;

/// What one commit did to an execution.
#[derive(JsonSchema)]
#[schemars(rename = "ExecutionChanged")]
pub(crate) struct Changed {
    /// The commit.
    sequence: u64,
    /// As it stood when the event was made, which may be after later commits.
    execution: Row,
    /// What the commit wrote into its journal.
    entries: Vec<Line>,
}

/// An execution that retention removed.
#[derive(JsonSchema)]
#[schemars(rename = "ExecutionForgotten")]
pub(crate) struct Forgotten {
    execution: String,
}

/// An approval that a commit wrote.
#[derive(JsonSchema)]
#[schemars(rename = "ApprovalTold")]
pub(crate) struct Case {
    /// The commit.
    sequence: u64,
    approval: Approval,
}

/// Why what was told before is void.
#[derive(JsonSchema)]
#[schemars(rename = "StreamReset")]
pub(crate) struct Reset {
    why: ResetWhy,
}

/// Why what was told before is void: too much happened since, something that changed was removed, the id is of another store, or
/// more happened than the client took.
#[derive(JsonSchema)]
#[schemars(rename = "StreamResetWhy", rename_all = "snake_case")]
pub(crate) enum ResetWhy {
    Behind,
    Forgotten,
    Unknown,
    Slow,
}

/// Why a stream ends.
#[derive(JsonSchema)]
#[schemars(rename = "StreamEnd")]
pub(crate) struct End {
    why: EndWhy,
}

/// Why a stream ends: the execution has, the server does, the token is no longer good or gives other rights, or the store does not
/// answer.
#[derive(JsonSchema)]
#[schemars(rename = "StreamEndWhy", rename_all = "snake_case")]
pub(crate) enum EndWhy {
    Finished,
    Stopping,
    Token,
    Rights,
    Unavailable,
}
