//! Delivers messages from one execution to another.
//!
//! Called by the worker. Invariant: a message takes effect in the commit that removes its task, so exactly once.

use super::commit::ExtraWrites;
use crate::{
    Engine, Error, Event, Request, SECOND,
    model::execution::message::{Message, Start},
};
use store::{Commit, Lease, Settle};

impl<P: Send + Sync + 'static> Engine<P> {
    /// Delivers a message, and removes its task with the same commit.
    pub(crate) async fn deliver_message(&self, lease: &Lease) -> Result<(), Error> {
        let (id, settle) = (lease.task.id.execution, Settle { task: lease.task.id, epoch: lease.epoch });
        let message: Message = match serde_json::from_slice(&lease.task.body) {
            Ok(message) => message,
            Err(error) => {
                // It may come from a later version, whose engines can read it, so it must not be lost.
                tracing::debug!(task = %lease.task.id, %error, "a message cannot be read");
                return Err(Error::NoWorker { workflow: "that can read this message".into(), schema: 0 });
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
                tracing::info!(execution = %id, trace_id = %id.trace_id(), %error, "a message arrived too late and is dropped");
                self.drop_message(settle).await
            }
            Err(error) => Err(error),
        }
    }

    async fn start_asked(&self, start: Start, settle: Settle) -> Result<(), Error> {
        let request = Request::by_name(start.by).with_idempotency_key(&start.key, &start.key);
        let also = ExtraWrites::default();
        match self.begin(&start.workflow, start.schema, start.data, request, Some(settle), also).await {
            Ok(started) if started.replayed => self.drop_message(settle).await,
            Ok(_) => Ok(()),
            Err(error @ (Error::KeyReused { .. } | Error::NeedsParent { .. })) => {
                tracing::error!(%error, key = start.key, "an execution that a decision requested cannot start");
                self.drop_message(settle).await
            }
            Err(Error::Store(store::Error::Busy { guard, holder })) => {
                tracing::info!(key = start.key, guard, %holder, "an execution that a decision requested must wait");
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
