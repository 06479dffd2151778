//! What a held store would have performed: shown to whoever is to let it go. Changes nothing.

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

/// Work that waits in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingTask {
    /// The execution as it stands.
    pub record: Record,
    /// Which of the slots of its state; 0 where there is one.
    pub slot: u32,
    /// When it is due, in milliseconds of the epoch.
    pub due: Timestamp,
    /// What it is.
    pub work: PendingWork,
}

/// What is done when work falls due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "does")]
pub enum PendingWork {
    /// Calls the outside. What was scheduled before a hold is asked about first.
    Calls {
        /// The action, by its name.
        action: String,
        /// Whether it takes back what an earlier step made.
        undo: bool,
        /// What comes when nobody can tell whether it was done: `repeated` under the same key, or `parked` as unknown.
        untold: &'static str,
    },
    /// Decides on the books, or about a child: within the store alone.
    Decides {
        /// The action, by its name.
        action: String,
    },
    /// Lets a moment pass: a deadline, a reminder, a promise.
    Rings,
    /// Passes a word of another execution on.
    Tells,
    /// Nothing: the execution is paused, has moved on, or fails here.
    Nothing,
    /// Not known to this version: the workflow, its schema, or what is written there.
    Unknown {
        /// Why.
        why: String,
    },
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// The work of up to `limit` open executions, the oldest first and after `after`.
    ///
    /// # Errors
    /// The store's.
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

    /// Ends the hold of the store that began at `since`, and goes to work. Says whether there was such a one.
    ///
    /// # Errors
    /// The store's.
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
