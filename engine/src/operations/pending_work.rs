//! Lists the work that a held store would run after its release. Changes nothing.

use crate::{
    Engine, ErasedAction, Error, Repeat, TaskRef,
    model::{
        definition::erased_action::ErasedActionKind,
        execution::{
            directive::{Directive, Work},
            message::Message,
        },
    },
};
use serde::Serialize;
use store::{ExecutionId, Filter, Page, Record, Task, Timestamp};

/// A task of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingTask {
    /// The execution.
    pub record: Record,
    /// The slot of its state; 0 if there is only one.
    pub slot: u32,
    /// When it is due, in milliseconds since 1970.
    pub due: Timestamp,
    /// The work.
    pub work: PendingWork,
}

/// The kinds of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "does")]
pub enum PendingWork {
    /// Calls an external system. If the task was scheduled before a hold, the engine probes first.
    Calls {
        /// The name of the action.
        action: String,
        /// True for an undo.
        undo: bool,
        /// The next step if the outcome stays unknown: `repeated` with the same key, or `parked`.
        untold: &'static str,
    },
    /// Decides on documents, or about a child, only within the store.
    Decides {
        /// The name of the action.
        action: String,
    },
    /// Handles a timer: a deadline, a reminder or a promised end.
    Rings,
    /// Delivers a message of another execution.
    Tells,
    /// Nothing: the execution is paused, has left that state, or fails.
    Nothing,
    /// This version does not have the workflow, its schema, or the kind of message.
    Unknown {
        /// The reason.
        why: String,
    },
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the work of up to `limit` open executions, oldest first, after `after`.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn pending_tasks(
        &self,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<PendingTask, ExecutionId>, Error> {
        let open = Filter { open: Some(true), ..Filter::default() };
        let found = self.inner.store.list(&open, after, limit).await?;
        let mut items = Vec::new();
        for record in found.items {
            for task in self.inner.store.tasks(record.id).await? {
                let what = self.awaited(&record, &task);
                items.push(PendingTask {
                    record: record.clone(),
                    slot: task.id.slot,
                    due: task.due,
                    work: what,
                });
            }
        }
        Ok(Page { items, next: found.next })
    }

    fn awaited(&self, record: &Record, task: &Task) -> PendingWork {
        if Message::is_one(task.id) {
            return PendingWork::Tells;
        }
        let ticket = TaskRef { visit: task.id.visit, slot: task.id.slot };
        let machine = self.machine(&record.workflow, record.schema);
        match machine.and_then(|machine| machine.directive(record, ticket)) {
            Ok(Directive::Run(work)) => pending_action(&work),
            Ok(Directive::DeliverTimer(_)) => PendingWork::Rings,
            Ok(Directive::GiveUp(_) | Directive::AwaitResume | Directive::Discard) => PendingWork::Nothing,
            Err(error) => PendingWork::Unknown { why: error.to_string() },
        }
    }

    /// Releases the hold of the store that began at `since`, and starts to work. Returns false if there is no such
    /// hold.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        let ended = self.inner.store.unhold(since).await?;
        self.inner.wakeup.notify();
        Ok(ended)
    }
}

fn pending_action<P>(work: &Work<P>) -> PendingWork {
    let ErasedAction { name, kind, repeat, .. } = &work.action;
    let action = (*name).to_owned();
    match kind {
        ErasedActionKind::Actuator(_) => {
            let untold = match repeat {
                Repeat::Safe => "repeated",
                Repeat::AfterProbe => "parked",
            };
            PendingWork::Calls { action, undo: work.undo, untold }
        }
        ErasedActionKind::Ledger(_) | ErasedActionKind::Child(_) | ErasedActionKind::CancelChild => {
            PendingWork::Decides { action }
        }
    }
}
