//! Messages to other executions: a signal, a cancel, or a start.
//!
//! A commit changes one execution. A message is a task of another execution, written by the same commit; a worker
//! delivers it with a commit that removes the task. So it takes effect exactly once, and only if the first commit
//! succeeds. Equal messages that are not delivered yet are merged.

use crate::{Attribution, Event, Undecided, View, Workflow, model::definition::erased_action::encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use store::{ExecutionId, Revision, Task, TaskId, Timestamp};

/// Set in the visit of a message's task. The visits of an execution never reach it.
const MESSAGE_BIT: u32 = 1 << 31;

/// A message to another execution. Persisted in its task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// Deliver a signal.
    Signal(String),
    /// Cancel it.
    Cancel(Attribution),
    /// Terminate it.
    Terminate(Attribution),
    /// Start it.
    Start(Box<Start>),
    /// Deliver this event and return the answer, for an engine that cannot read the execution itself.
    Relayed(Box<Relayed>),
}

/// An execution that a decision starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) workflow: String,
    pub(crate) schema: u32,
    pub(crate) data: Value,
    pub(crate) by: String,
    pub(crate) key: String,
}

impl Message {
    /// Returns the message as a task of the execution `to`, due at `at`.
    pub(crate) fn task(&self, to: ExecutionId, at: Timestamp) -> Task {
        let body = serde_json::to_vec(self).unwrap_or_default();
        let [a, b, c, d, e, f, g, h, ..] = <[u8; 32]>::from(Sha256::digest(&body));
        let visit = MESSAGE_BIT | u32::from_be_bytes([a, b, c, d]);
        let id = TaskId { execution: to, visit, slot: u32::from_be_bytes([e, f, g, h]) };
        Task { id, due: at, body }
    }

    /// Returns the addressee of a start, which has no execution yet: an id derived from the key.
    pub(crate) fn nobody(key: &str) -> ExecutionId {
        let [a, b, c, d, e, f, g, h, i, j, ..] = <[u8; 32]>::from(Sha256::digest(key));
        ExecutionId::new(Timestamp(0), [a, b, c, d, e, f, g, h, i, j])
    }

    pub(crate) fn is_one(task: TaskId) -> bool {
        task.visit & MESSAGE_BIT != 0
    }
}

/// An event, passed on to an engine that can read the execution.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Relayed {
    /// The event.
    pub(crate) event: Event,
    /// The revision of the record that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) revision: Option<Revision>,
    /// The id of the answer.
    pub(crate) answer: ExecutionId,
}

impl View {
    /// Sends a signal to the execution `to` with the commit of this decision. Ignored if that execution has finished
    /// or does not exist.
    pub fn signal(&mut self, to: ExecutionId, name: impl Into<String>) {
        self.ask(to, Message::Signal(name.into()));
    }

    /// Sends a message to the execution `to` with the commit of this decision.
    pub(crate) fn ask(&mut self, to: ExecutionId, message: Message) {
        let task = message.task(to, self.now());
        self.add_task(task);
    }

    /// Starts an execution of `data`, requested by `by`, with the commit of this decision. The same `key` starts
    /// nothing again. While another execution holds its guard, the start waits.
    ///
    /// # Errors
    /// Returns a permanent `engine.encode` if `data` cannot be stored.
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
