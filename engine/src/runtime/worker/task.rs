//! One task, from its lease to its commit.

use crate::{
    ActionError, Call, Class, Engine, Error, Event, MINUTE, Refusal, SECOND, TaskRef,
    core::{
        refused_commits::commit_error,
        slots::{POISONED, STATE_DEADLINE},
    },
    model::{
        definition::erased_action::ErasedActionKind,
        execution::{
            directive::{Directive, Work},
            message::Message,
        },
    },
};
use std::time::Duration;
use store::{Commit, Epoch, Lease, Settle, TaskId};
use tracing::Instrument as _;

impl<P: Send + Sync + 'static> Engine<P> {
    /// Runs one task, from lease to commit. Errors are handled by the store or by the next delivery.
    pub(crate) async fn work(&self, lease: Lease) {
        let (task, epoch, deliveries) = (lease.task.id, lease.epoch, lease.deliveries);
        let span = tracing::info_span!("task", execution = %task.execution, trace_id = %task.execution.trace_id(), visit = task.visit, slot = task.slot);
        let worked = self.try_work(lease).instrument(span.clone()).await;
        let _in = span.enter();
        let later = |delay| self.inner.clock.now().after(delay);
        // Deliveries that were never tried, or whose commit failed once, do not count as lost; the next attempt
        // probes first. Only deliveries lost with their worker count towards poison.
        let (put_off, delivered) = match worked {
            Ok(()) => return,
            Err(Error::Refused(Refusal::Stale | Refusal::Finished | Refusal::Unexpected { .. })) => {
                tracing::debug!("the execution has left that state; the result is dropped");
                drop(_in);
                return self.forget(task, epoch).await;
            }
            Err(Error::Store(store::Error::Fenced { .. })) => {
                self.inner.metrics.fenced();
                tracing::warn!(epoch = epoch.0, "a late result was refused");
                drop(_in);
                return Box::pin(self.note_fenced(task, epoch)).await;
            }
            Err(error @ Error::NoWorker { .. }) => {
                self.inner.metrics.left_alone();
                // A caller may wait for the effect of a message.
                let longest = if Message::is_one(task) { SECOND / 2 } else { MINUTE };
                let (pause, first) = self.inner.version_routing.defer(task, self.inner.clock.now(), longest);
                if first {
                    tracing::warn!(%error, "skipped: another version must run it");
                }
                (pause, deliveries.saturating_sub(1))
            }
            Err(error @ Error::NotFound(_)) => {
                // A task without its execution is looked at ever more rarely.
                let now = self.inner.clock.now();
                let (pause, first) = self.inner.version_routing.defer(task, now, 10 * MINUTE);
                if first {
                    tracing::warn!(%error, "skipped: its execution is missing");
                }
                (pause, deliveries.saturating_sub(1))
            }
            Err(
                error @ (Error::Unreadable { .. }
                | Error::Destroyed { .. }
                | Error::Store(store::Error::Corrupt { .. })),
            ) => (self.defer_unreadable(task, &error), deliveries.saturating_sub(1)),
            Err(Error::Store(error)) if !error.may_pass() => {
                drop(_in);
                return Box::pin(self.park_refused(task, epoch, &error)).await;
            }
            Err(error) => {
                tracing::error!(%error, "a result could not be committed; the task will be delivered again");
                (SECOND, 1)
            }
        };
        drop(_in);
        if let Err(error) = self.hand_back(task, epoch, later(put_off), delivered).await {
            tracing::warn!(%task, %error, "a task could not be returned; its lease will expire");
        }
    }

    /// Returns how long the task of an unreadable execution is deferred.
    fn defer_unreadable(&self, task: TaskId, error: &Error) -> Duration {
        self.inner.metrics.unreadable();
        // An earlier version that runs in parallel may know a state that this version removed.
        let now = self.inner.clock.now();
        let (pause, first) = self.inner.version_routing.defer(task, now, 10 * MINUTE);
        if first {
            tracing::error!(%error, "an execution cannot be read; other executions continue");
        }
        pause
    }

    /// Parks the execution whose commit was refused permanently: the task is not retried until an operator acts.
    async fn park_refused(&self, task: TaskId, epoch: Epoch, error: &store::Error) {
        tracing::error!(%error, "a result cannot be stored, and a retry would not help");
        let ticket = TaskRef { visit: task.visit, slot: task.slot };
        let error = commit_error(matches!(error, store::Error::TooLarge { .. }), error);
        let event = Event::CommitRefused { ticket, error };
        match self.deliver_settling(task.execution, event, Some(Settle { task, epoch })).await {
            Ok(_) => return,
            Err(Error::Store(store::Error::Fenced { .. })) => {
                self.inner.metrics.fenced();
                return self.note_fenced(task, epoch).await;
            }
            Err(Error::Refused(_)) if !Message::is_one(task) => return self.forget(task, epoch).await,
            Err(error) => {
                tracing::error!(%task, %error, "the execution could not be parked; trying again")
            }
        }
        let later = self.inner.clock.now().after(MINUTE);
        if let Err(error) = self.hand_back(task, epoch, later, 1).await {
            tracing::warn!(%task, %error, "a task could not be returned; its lease will expire");
        }
    }

    async fn try_work(&self, lease: Lease) -> Result<(), Error> {
        let id = lease.task.id.execution;
        let ticket = TaskRef { visit: lease.task.id.visit, slot: lease.task.id.slot };
        let settle = Some(Settle { task: lease.task.id, epoch: lease.epoch });
        if Message::is_one(lease.task.id) {
            return Box::pin(self.deliver_message(&lease)).await;
        }
        let record = self.record(id).await?;
        let span = tracing::Span::current();
        span.record("workflow", &record.workflow)
            .record("tenant", &record.tenant)
            .record("state", &record.state);
        let machine = self.machine(&record.workflow, record.schema)?;
        if lease.deliveries > 1 {
            self.inner.metrics.redelivered();
        }
        let directive = machine.directive(&record, ticket)?;
        if !matches!(directive, Directive::Run(_)) {
            // It no longer waits for a key and holds no permit.
            self.withdraw(&[lease.task.id]).await;
        }
        let event = match directive {
            Directive::Discard => {
                self.forget(lease.task.id, lease.epoch).await;
                return Ok(());
            }
            Directive::AwaitResume => Event::Held { ticket, doubt: lease.deliveries > 1 },
            Directive::DeliverTimer(Event::DeadlinePassed { .. })
                if self.put_off_deadline(&lease).await? =>
            {
                return Ok(());
            }
            Directive::DeliverTimer(event) => event,
            // It is too late, and an earlier worker may have done it.
            Directive::GiveUp(error) if lease.deliveries > 1 && error.code == STATE_DEADLINE => {
                Event::Settled {
                    ticket,
                    result: Err(ActionError { class: Class::Unknown, ..error }),
                    tried: None,
                }
            }
            Directive::GiveUp(error) => Event::Settled { ticket, result: Err(error), tried: None },
            Directive::Run(_) if lease.deliveries > self.inner.options.poison_after => {
                let error = format!("delivered {} times without a result", lease.deliveries - 1);
                Event::Settled { ticket, result: Err(ActionError::permanent(POISONED, error)), tried: None }
            }
            Directive::Run(work) => return self.run_work(&lease, &record.tenant, *work).await,
        };
        self.deliver_settling(id, event, settle).await.map(|_| ())
    }

    /// Runs the work of a task by its kind.
    async fn run_work(&self, lease: &Lease, tenant: &str, work: Work<P>) -> Result<(), Error> {
        let attempt = work.failed + lease.deliveries;
        tracing::Span::current().record("attempt", attempt);
        let call = Call {
            execution: lease.task.id.execution,
            state: work.state,
            states_entered: work.states_entered,
            slot: work.slot,
            slot_revision: work.slot_revision,
            undo: work.undo,
            undo_revision: work.undo_revision,
            attempt,
            epoch: lease.epoch,
            last_heartbeat: work.beat,
            beats: None,
        };
        let doubt = work.doubt || lease.deliveries > 1;
        // Rare kinds are boxed, so that the common one needs less memory.
        match work.action.kind {
            ErasedActionKind::Ledger(_) => Box::pin(self.settle_ledger(lease, &call)).await,
            ErasedActionKind::Child(_) | ErasedActionKind::CancelChild => {
                Box::pin(self.settle_child(lease, &call)).await
            }
            ErasedActionKind::Actuator(_) => {
                self.act_within_limits(lease, tenant, work.action, call, doubt, work.limits).await
            }
        }
    }

    /// Removes a task that is no longer needed.
    async fn forget(&self, task: TaskId, epoch: Epoch) {
        let commit = Commit { settle: Some(Settle { task, epoch }), ..Commit::default() };
        match self.inner.store.commit(commit).await {
            Ok(_) => {}
            Err(store::Error::Fenced { .. }) => {
                self.inner.metrics.fenced();
                self.note_fenced(task, epoch).await;
            }
            Err(error) => {
                tracing::warn!(%task, %error, "a stale task could not be removed; it will be delivered again")
            }
        }
    }

    /// Records the refusal of a late result in the execution's history.
    async fn note_fenced(&self, task: TaskId, epoch: Epoch) {
        let Ok(Some(record)) = self.inner.store.load(task.execution).await else { return };
        let entry = store::Entry {
            sequence: store::Sequence(0),
            execution: task.execution,
            at: self.inner.clock.now(),
            actor: self.inner.options.holder.clone(),
            event: "fenced".into(),
            from: record.state.clone(),
            to: record.state,
            detail: serde_json::to_vec(&serde_json::json!({ "task": task.to_string(), "epoch": epoch.0 }))
                .unwrap_or_default(),
        };
        let commit = Commit { journal: vec![entry], ..Commit::default() };
        if let Err(error) = self.inner.store.commit(commit).await {
            tracing::warn!(%error, "the refusal of a late result could not be written to the journal");
        }
    }
}

pub(crate) fn fenced_error(lease: &Lease) -> Error {
    store::Error::Fenced { task: lease.task.id, epoch: lease.epoch }.into()
}
