//! What a commit asks of another execution: a signal, a cancel, or that it be started.
//!
//! A commit changes one execution. What it asks of another is a task of that one, written by the same commit; a worker
//! delivers it with a commit that removes the task. So it takes effect once, after the commit and not without it. Asking the
//! same twice before it is delivered is asking once.

use crate::{
    Engine, Error, Event, Order, Request,
    model::action::SECOND,
    runtime::{engine::Also, relay::Relayed},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use store::{Commit, ExecutionId, Lease, Settle, Task, TaskId, Timestamp};

/// Set in the visit of a message's task; a visit of an execution never counts so far.
const MESSAGE: u32 = 1 << 31;

/// One thing asked of another execution. Persisted in its task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    /// Tell it that this has happened.
    Signal(String),
    /// Ask it to turn back.
    Cancel(Order),
    /// Close it by force.
    Terminate(Order),
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
        let visit = MESSAGE | u32::from_be_bytes([a, b, c, d]);
        let id = TaskId { execution: to, visit, slot: u32::from_be_bytes([e, f, g, h]) };
        Task { id, due: at, body }
    }

    /// To whom a start is addressed: nobody yet, so the key gives the name.
    pub(crate) fn nobody(key: &str) -> ExecutionId {
        let [a, b, c, d, e, f, g, h, i, j, ..] = <[u8; 32]>::from(Sha256::digest(key));
        ExecutionId::new(Timestamp(0), [a, b, c, d, e, f, g, h, i, j])
    }

    pub(crate) fn is_one(task: TaskId) -> bool {
        task.visit & MESSAGE != 0
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Delivers a message, and removes its task with the same commit.
    pub(crate) async fn deliver_message(&self, lease: &Lease) -> Result<(), Error> {
        let (id, settle) = (lease.task.id.execution, Settle { task: lease.task.id, epoch: lease.epoch });
        let message: Message = match serde_json::from_slice(&lease.task.body) {
            Ok(message) => message,
            Err(error) => {
                // It may be of a later version, whose engines take it: what was asked for is not lost for that.
                tracing::debug!(task = %lease.task.id, %error, "a message cannot be read");
                return Err(Error::NoWorker { workflow: "that sends such messages".into(), schema: 0 });
            }
        };
        let event = match message {
            Message::Signal(name) => Event::Signalled { name },
            Message::Cancel(order) => Event::CancelRequested(order),
            Message::Terminate(order) => Event::TerminateRequested(order),
            Message::Start(start) => return self.start_asked(*start, settle).await,
            Message::Relayed(relayed) => return self.deliver_relayed(id, *relayed, settle).await,
        };
        match self.deliver_settling(id, event, Some(settle)).await {
            Ok(_) => Ok(()),
            Err(error @ (Error::Refused(_) | Error::NotFound(_))) => {
                tracing::info!(execution = %id, trace_id = %id.trace_id(), %error, "a message came too late, and is dropped");
                self.drop_message(settle).await
            }
            Err(error) => Err(error),
        }
    }

    async fn start_asked(&self, start: Start, settle: Settle) -> Result<(), Error> {
        let request = Request::of(start.by).once(&start.key, &start.key);
        let also = Also::default();
        match self.begin(&start.workflow, start.schema, start.data, request, Some(settle), also).await {
            Ok(started) if started.replayed => self.drop_message(settle).await,
            Ok(_) => Ok(()),
            Err(error @ (Error::KeyReused { .. } | Error::NeedsParent { .. })) => {
                tracing::error!(%error, key = start.key, "an execution that a decision asked for cannot start");
                self.drop_message(settle).await
            }
            Err(Error::Store(store::Error::Busy { guard, holder })) => {
                tracing::info!(key = start.key, guard, %holder, "an execution that a decision asked for has to wait");
                let due = self.inner.clock.now().after(30 * SECOND);
                Ok(self.hand_back(settle.task, settle.epoch, due, 0).await?)
            }
            Err(error) => Err(error),
        }
    }

    async fn drop_message(&self, settle: Settle) -> Result<(), Error> {
        self.inner.store.commit(Commit { settle: Some(settle), ..Commit::default() }).await?;
        Ok(())
    }
}
