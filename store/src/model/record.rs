//! What a store keeps. Bodies are opaque bytes here; the fields beside them are what people query.

use crate::{Epoch, ExecutionId, Revision, Sequence, Timestamp};
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// What a record can be found by beside its columns: the values of each field, in order.
pub type Attributes = BTreeMap<String, BTreeSet<String>>;

/// One execution as it stands: the columns people filter by, and its body.
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
    /// Whose it is; empty for the platform's own.
    pub tenant: String,
    /// What it is about, such as `tenant/acme`.
    pub subject: String,
    /// While the record is open, no other open record may hold the same guard.
    pub guard: Option<String>,
    /// Where it stands, by the state's name.
    pub state: String,
    /// `forward`, `compensating`, `parked`, `paused` or `finished`.
    pub phase: String,
    /// Why it is parked, or how it finished; `None` while it runs.
    pub reason: Option<String>,
    /// False once it has finished.
    pub open: bool,
    /// Who asked for it.
    pub requested_by: String,
    /// When it was asked for.
    pub created_at: Timestamp,
    /// When it was last committed.
    pub updated_at: Timestamp,
    /// What else it can be found by. Names are lower-case letters and `_`, and none of the columns above.
    #[serde(default, skip_serializing_if = "Attributes::is_empty")]
    pub attributes: Attributes,
    /// The execution itself, encoded by the engine (JSON, UTF-8).
    pub body: Vec<u8>,
}

/// One line of an execution's history: what happened, by whom, and from where to where it led.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its place in the store's history, set by the store; entries of one commit share it and keep their order.
    pub sequence: Sequence,
    /// The execution it belongs to.
    pub execution: ExecutionId,
    /// When, by the engine's clock.
    pub at: Timestamp,
    /// Who: a person, a key, or `engine`.
    pub actor: String,
    /// What: the event's name, such as `settled` or `approved`.
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
    /// Tells the visit's tasks apart.
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
    /// Not to be leased before.
    pub due: Timestamp,
    /// What to do, encoded by the engine.
    pub body: Vec<u8>,
}

/// The right to work on a task until a moment, fenced by an epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// The work.
    pub task: Task,
    /// Who holds it.
    pub holder: String,
    /// Presented with every write about the task.
    pub epoch: Epoch,
    /// How often the task has been handed out since it was scheduled, this time included: above 1, an earlier holder
    /// may have done the work and died before it could say so.
    pub deliveries: u32,
    /// When it lapses unless renewed.
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
    /// Its content (JSON, UTF-8).
    pub body: Vec<u8>,
}

/// A change of one document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Put {
    /// Which one.
    pub key: Key,
    /// Its new content, or `None` to delete it.
    pub body: Option<Vec<u8>>,
}

/// A document as a decision saw it; the commit that acts on the decision holds only while this is still so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// Which one.
    pub key: Key,
    /// The version seen, or `None` if there was none.
    pub version: Option<Sequence>,
}
