//! The data of a store. Bodies are opaque bytes here; the other fields can be searched.

use crate::{Epoch, ExecutionId, Revision, Sequence, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// The attributes of a record for searches, in addition to its columns: the values of each field, in order.
pub type Attributes = BTreeMap<String, BTreeSet<String>>;

/// An execution: the columns for searches, and its body.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Names it.
    pub id: ExecutionId,
    /// Its version, set by [`Store::commit`](crate::Store::commit); what a caller puts here is ignored.
    pub revision: Revision,
    /// The workflow it runs, by name.
    pub workflow: String,
    /// The schema of `body`, counted by the workflow.
    pub schema: u32,
    /// The tenant; empty for the platform.
    pub tenant: String,
    /// The subject, such as `tenant/acme`.
    pub subject: String,
    /// While the record is open, no other open record may hold the same guard.
    pub guard: Option<String>,
    /// The name of the state.
    pub state: String,
    /// `forward`, `compensating`, `parked`, `paused` or `finished`.
    pub phase: String,
    /// Why it is parked, or how it finished; `None` while it runs.
    pub reason: Option<String>,
    /// False once it has finished.
    pub open: bool,
    /// The requester.
    pub requested_by: String,
    /// The time of the request.
    pub created_at: Timestamp,
    /// When it was last committed.
    pub updated_at: Timestamp,
    /// Additional search attributes. Names are lower-case letters and `_`, and differ from the columns above.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// The execution itself, encoded by the engine (JSON, UTF-8).
    pub body: Vec<u8>,
}

/// One entry of an execution's history: the event, its actor, and the states before and after.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place in the store's history, set by the store; entries of one commit share it and keep their order.
    pub sequence: Sequence,
    /// The execution it belongs to.
    pub execution: ExecutionId,
    /// When, by the engine's clock.
    pub at: Timestamp,
    /// The actor: a person, a key, or `engine`.
    pub actor: String,
    /// The name of the event, such as `settled` or `approved`.
    pub event: String,
    /// The state before.
    pub from: String,
    /// The state after.
    pub to: String,
    /// Everything else, as JSON (UTF-8).
    pub detail: Vec<u8>,
}

/// Names one piece of work: a slot of one visit of one execution to a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TaskId {
    /// The execution that waits for it.
    pub execution: ExecutionId,
    /// Counts the states the execution has entered.
    pub visit: u32,
    /// Distinguishes the tasks of a visit.
    pub slot: u32,
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/{}", self.execution, self.visit, self.slot)
    }
}

/// A piece of work and the moment it is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Task {
    /// Names it; scheduling the same name again replaces `due` and `body` and leaves a lease as it is.
    pub id: TaskId,
    /// The earliest time of a lease.
    pub due: Timestamp,
    /// The work, encoded by the engine.
    pub body: Vec<u8>,
}

/// The right to work on a task until a moment, fenced by an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The work.
    pub task: Task,
    /// The holder.
    pub holder: String,
    /// Required for every write about the task.
    pub epoch: Epoch,
    /// How often the task has been delivered since it was scheduled, including this lease. Above 1, an earlier holder
    /// may have done the work and crashed before its commit.
    pub deliveries: u32,
    /// When it expires unless renewed.
    pub until: Timestamp,
}

/// Names a document: a collection, and an id within it. Ids sort as bytes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    /// The kind of document, such as `nodes`. Lower-case letters, digits, `.`, `-` and `_`.
    pub collection: String,
    /// Which one. Any text without a NUL.
    pub id: String,
}

impl Key {
    /// The key of `id` in `collection`.
    pub fn new(collection: impl Into<String>, id: impl Into<String>) -> Self {
        Self { collection: collection.into(), id: id.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.collection, self.id)
    }
}

/// A document and its version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Document {
    /// Names it.
    pub key: Key,
    /// The commit that wrote it.
    pub version: Sequence,
    /// The content (JSON, UTF-8).
    pub body: Vec<u8>,
}

/// A change of one document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Put {
    /// Which one.
    pub key: Key,
    /// The new content, or `None` to delete it.
    pub body: Option<Vec<u8>>,
}

/// A document version that a decision read. The commit of the decision is applied only if the version is unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// Which one.
    pub key: Key,
    /// The version seen, or `None` if there was none.
    pub version: Option<Sequence>,
}
