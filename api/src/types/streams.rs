//! Events of streams.

#![expect(dead_code, reason = "describes the text that streams write")]

use super::{
    approvals::Approval,
    executions::{Line, Row},
};
use schemars::JsonSchema;

/// The changes of an execution in one commit.
#[derive(JsonSchema)]
#[schemars(rename = "ExecutionChanged")]
pub(crate) struct Changed {
    /// The sequence number of the commit.
    sequence: u64,
    /// The execution when the event was created, which may include later commits.
    execution: Row,
    /// The journal entries of the commit.
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
    /// The sequence number of the commit.
    sequence: u64,
    approval: Approval,
}

/// The client must discard its state.
#[derive(JsonSchema)]
#[schemars(rename = "StreamReset")]
pub(crate) struct Reset {
    why: ResetWhy,
}

/// The reason to discard the state: too many changes since, a changed item was removed, the id is of another store, or the client was too slow.
#[derive(JsonSchema)]
#[schemars(rename = "StreamResetWhy", rename_all = "snake_case")]
pub(crate) enum ResetWhy {
    Behind,
    Forgotten,
    Unknown,
    Slow,
}

/// The end of a stream.
#[derive(JsonSchema)]
#[schemars(rename = "StreamEnd")]
pub(crate) struct End {
    why: EndWhy,
}

/// The reason of the end: the execution has ended, the server stops, the token is invalid or its rights have changed, or the store does not answer.
#[derive(JsonSchema)]
#[schemars(rename = "StreamEndWhy", rename_all = "snake_case")]
pub(crate) enum EndWhy {
    Finished,
    Stopping,
    Token,
    Rights,
    Unavailable,
}
