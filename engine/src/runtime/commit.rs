//! Commits one transition: record, journal, tasks and documents, in one write of the store.
//!
//! Invariant: a transition is committed whole or not at all; metrics, logs and observers are updated afterwards.

use crate::{Engine, Error, Stopwatch, model::erased_workflow::TransitionCommit};
use store::{Commit, Entry, Key, Put, Read, Revision, Settle, Task, Timestamp, Write};

/// How often a call retries on a contended execution.
pub(crate) const MAX_TRIES: usize = 64;

/// Additional parts of a commit.
#[derive(Debug, Default)]
pub(crate) struct ExtraWrites {
    pub(crate) reads: Vec<Read>,
    pub(crate) documents: Vec<Put>,
    pub(crate) journal: Vec<Entry>,
    pub(crate) tasks: Vec<Task>,
}

impl ExtraWrites {
    pub(crate) fn writes(&self, key: &Key) -> bool {
        self.documents.iter().any(|put| put.key == *key)
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    pub(crate) async fn commit(
        &self,
        expected: Option<Revision>,
        next: TransitionCommit,
        settle: Option<Settle>,
        mut also: ExtraWrites,
    ) -> Result<Revision, Error> {
        self.settle_relatives(&next, &mut also).await?;
        let id = next.record.id;
        let workflow = next.record.workflow.clone();
        let retired = next.retire.clone();
        let commit = Commit {
            record: Some(Write { record: next.record, expected }),
            reads: also.reads,
            documents: also.documents.into_iter().chain(next.documents).collect(),
            journal: next.journal.into_iter().chain(also.journal).collect(),
            schedule: next.schedule.into_iter().chain(also.tasks).collect(),
            retire: next.retire,
            settle,
            ..Commit::default()
        };
        let watch = Stopwatch::start();
        // A worker that settles a task looks for its next task itself.
        let now = self.inner.clock.now();
        let is_new = |due: &Timestamp| settle.is_none() || *due > now;
        let scheduled = commit.schedule.iter().map(|task| task.due).filter(is_new).min();
        let receipt = self.inner.store.commit(commit).await?;
        self.inner.metrics.committed(watch.elapsed());
        self.inner.wakeup.notify_before(scheduled);
        (self.inner.edge_observer)(id, &next.edges);
        if let Some(outcome) = next.finished.map(Into::<&str>::into) {
            self.inner.metrics.count_ended(&workflow, outcome);
            self.inner.metrics.promised(&workflow, next.met_promise);
            tracing::info!(execution = %id, trace_id = %id.trace_id(), workflow, outcome, "finished");
        }
        if let Some(reason) = next.parked {
            self.inner.metrics.parked(reason);
            tracing::warn!(execution = %id, trace_id = %id.trace_id(), workflow, reason, "parked: an operator must act");
        }
        if let Some(ruling) = next.ruled {
            self.inner.metrics.ruled(&workflow, ruling);
        }
        if let Some(review) = next.break_glass {
            self.inner.metrics.break_glass_used(&workflow);
            let (approval, by, reason) = (&review.approval, &review.by, &review.reason);
            tracing::warn!(execution = %id, trace_id = %id.trace_id(), workflow, approval, by, reason, "break-glass was used: another person must review it");
        }
        self.withdraw(&retired).await;
        Ok(receipt.revision.unwrap_or_default())
    }
}
