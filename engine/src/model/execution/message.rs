//! What a commit asks of another execution: a signal, a cancel, or that it be started.
//!
//! A commit changes one execution. What it asks of another is a task of that one, written by the same commit; a worker
//! delivers it with a commit that removes the task. So it takes effect once, after the commit and not without it.
//! Asking the same twice before it is delivered is asking once.

use crate::{Attribution, Event, Undecided, View, Workflow, model::definition::erased_action::encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use store::{ExecutionId, Revision, Task, TaskId, Timestamp};

/// Set in the visit of a message's task; a visit of an execution never counts so far.
const MESSAGE_BIT: u32 = 1 << 31;

/// One thing asked of another execution. Persisted in its task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// Tell it that this has happened.
    Signal(String),
    /// Ask it to turn back.
    Cancel(Attribution),
    /// Close it by force.
    Terminate(Attribution),
    /// Start it.
    Start(Box<Start>),
    /// Take this event, and answer whoever asked: an engine that cannot read the execution itself.
    Relayed(Box<Relayed>),
}

/// An execution that a decision asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) workflow: String,
    pub(crate) schema: u32,
    pub(crate) data: Value,
    pub(crate) by: String,
    pub(crate) key: String,
}

impl Message {
    /// The message as a task of the execution `to`, due at `at`.
    pub(crate) fn task(&self, to: ExecutionId, at: Timestamp) -> Task {
        let body = serde_json::to_vec(self).unwrap_or_default();
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(&body));
        let visit = MESSAGE_BIT | u32::from_be_bytes([a, b, c, d]);
        let id = TaskId { execution: to, visit, slot: u32::from_be_bytes([e, f, g, h]) };
        Task { id, due: at, body }
    }

    /// To whom a start is addressed: nobody yet, so the key gives the name.
    pub(crate) fn nobody(key: &str) -> ExecutionId {
        let [a, b, c, d, e, f, g, h, i, j, ..] = <[u8; 32]>::from(Sha256::digest(key));
        ExecutionId::new(Timestamp(0), [a, b, c, d, e, f, g, h, i, j])
    }

    pub(crate) fn is_one(task: TaskId) -> bool {
        task.visit & MESSAGE_BIT != 0
    }
}

/// An event on its way to an engine that can read the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Relayed {
    /// What is told.
    pub(crate) event: Event,
    /// The version of the record that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<Revision>,
    /// Names the answer.
    pub(crate) answer: ExecutionId,
}

impl View {
    /// Tells the execution `to` that something it waits for, or will, has happened: once this decision is committed, and not
    /// without it. An execution that has finished, or never was, needs no telling.
    pub fn signal(&mut self, to: ExecutionId, name: impl Into<String>) {
        self.ask(to, Message::Signal(name.into()));
    }

    /// Asks something of the execution `to`, once this decision is committed, and not without it.
    pub(crate) fn ask(&mut self, to: ExecutionId, message: Message) {
        let task = message.task(to, self.now());
        self.add_task(task);
    }

    /// Starts an execution of `data`, asked for by `by`, once this decision is committed, and not without it. The same `key`
    /// starts nothing again; while another execution holds its guard, it waits for that one.
    ///
    /// # Errors
    /// A permanent `engine.encode` when `data` cannot be stored.
    pub fn start<W: Workflow>(
        &mut self,
        data: &W,
        by: impl Into<String>,
        key: &str,
    ) -> Result<(), Undecided> {
        let start = Start {
            workflow: W::NAME.into(),
            schema: W::SCHEMA,
            data: encode(data)?,
            by: by.into(),
            key: key.into(),
        };
        self.ask(Message::nobody(key), Message::Start(Box::new(start)));
        Ok(())
    }
}
