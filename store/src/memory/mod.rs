//! The reference semantics of a store: plain maps under one mutex, only in memory.
//!
//! Tests and dry runs use it, and the embedded store is compared with it, so they share no code except the limits.
//! The store on PostgreSQL decides by the same rules, on the rows that a batch touches. Invariant: a commit is
//! checked completely before any change.

mod apply;
mod fair_queue;

use crate::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Page, Query, Receipt, Record, Sequence, Store, Task, TaskId, Timestamp, model::limits,
    sync::lock_unpoisoned,
};
use async_trait::async_trait;
use std::{
    collections::BTreeMap,
    ops::Bound,
    sync::{Mutex, MutexGuard},
    time::Duration,
};

/// A [`Store`] that loses everything when it is dropped.
#[derive(Default)]
pub struct Memory {
    state: Mutex<State>,
    /// The longest body, in bytes, if it is below the required limit.
    row_limit: Option<usize>,
}

/// The state that a commit reads and changes. Other stores load a part of it, to decide in the same way.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) sequence: Sequence,
    pub(crate) epoch: Epoch,
    pub(crate) records: BTreeMap<ExecutionId, Record>,
    pub(crate) guards: BTreeMap<String, ExecutionId>,
    pub(crate) entries: BTreeMap<(ExecutionId, Sequence, u32), Entry>,
    pub(crate) order: BTreeMap<(Sequence, u32), ExecutionId>,
    pub(crate) documents: BTreeMap<Key, Document>,
    pub(crate) tasks: BTreeMap<TaskId, TaskState>,
    /// The last turn of each tenant that had one.
    pub(crate) served: BTreeMap<String, u64>,
    pub(crate) turns: u64,
    pub(crate) hold: Option<Hold>,
}

pub(crate) struct TaskState {
    pub(crate) task: Task,
    pub(crate) deliveries: u32,
    pub(crate) lease: Option<ActiveLease>,
}

pub(crate) struct ActiveLease {
    pub(crate) holder: String,
    pub(crate) epoch: Epoch,
    pub(crate) until: Timestamp,
}

impl TaskState {
    /// When the task may be leased (again).
    pub(crate) fn available(&self) -> Timestamp {
        self.lease.as_ref().map_or(self.task.due, |grip| grip.until.max(self.task.due))
    }

    fn lease_with_epoch(&mut self, epoch: Epoch) -> Option<&mut ActiveLease> {
        self.lease.as_mut().filter(|grip| grip.epoch == epoch)
    }
}

impl Memory {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty store that refuses bodies over `bytes`, for tests of pages.
    #[must_use]
    pub fn with_row_limit(bytes: usize) -> Self {
        Self { row_limit: Some(bytes), ..Self::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock_unpoisoned(&self.state)
    }
}

/// The first `limit` items, and the cursor of the last of them if there are more.
fn page<T, C>(mut items: impl Iterator<Item = T>, limit: usize, cursor: impl Fn(&T) -> C) -> Page<T, C> {
    let items_of_page: Vec<T> = items.by_ref().take(limit).collect();
    let more = limit > 0 && items.next().is_some();
    let next = if more { items_of_page.last().map(cursor) } else { None };
    Page { items: items_of_page, next }
}

#[async_trait]
impl Store for Memory {
    async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        limits::check(&commit)?;
        self.row_limit.map_or(Ok(()), |limit| limits::check_rows(&commit, limit))?;
        let mut state = self.state();
        state.check(&commit)?;
        Ok(state.apply(commit))
    }

    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        Ok(self.state().records.get(&id).cloned())
    }

    async fn guard_holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error> {
        Ok(self.state().guards.get(guard).copied())
    }

    async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error> {
        let state = self.state();
        let from =
            after.map_or(Bound::Included((id, Sequence(0), 0)), |(s, place)| Bound::Excluded((id, s, place)));
        let entries = state.entries.range((from, Bound::Included((id, Sequence(u64::MAX), u32::MAX))));
        let Page { items, next } = page(entries, limit, |((_, sequence, place), _)| (*sequence, *place));
        Ok(Page { items: items.into_iter().map(|(_, entry)| entry.clone()).collect(), next })
    }

    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error> {
        let state = self.state();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = state.order.range((from, Bound::Unbounded)).filter_map(|((sequence, place), id)| {
            state.entries.get(&(*id, *sequence, *place)).map(|entry| (*place, entry.clone()))
        });
        Ok(page(entries, limit, |(place, entry)| (entry.sequence, *place)))
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error> {
        let state = self.state();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let records = state.records.range((from, Bound::Unbounded)).map(|(_, record)| record);
        Ok(page(records.filter(|record| filter.accepts(record)).cloned(), limit, |record| record.id))
    }

    /// Examines all records: the meaning of a search, without an index.
    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error> {
        let state = self.state();
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let records = state.records.range((from, Bound::Unbounded)).map(|(_, record)| record);
        let Page { items, next } =
            page(records.filter(|record| query.accepts(record)).cloned(), limit, |record| record.id);
        Ok(Found { items, next, partial: false })
    }

    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error> {
        Ok(Vec::new())
    }

    async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        limits::check_key(key)?;
        Ok(self.state().documents.get(key).cloned())
    }

    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        limits::check_collection(collection)?;
        let state = self.state();
        let from = match after.filter(|after| *after >= prefix) {
            Some(after) => Bound::Excluded(Key::new(collection, after)),
            None => Bound::Included(Key::new(collection, prefix)),
        };
        let wanted =
            state.documents.range((from, Bound::Unbounded)).map(|(_, document)| document).take_while(
                |document| document.key.collection == collection && document.key.id.starts_with(prefix),
            );
        Ok(page(wanted.cloned(), limit, |document| document.key.id.clone()))
    }

    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error> {
        let mut state = self.state();
        if state.hold.is_some() {
            return Ok(Vec::new());
        }
        let mut due = state.due_by_tenant(now);
        let mut leases = Vec::new();
        while leases.len() < limit {
            let Some(id) = state.take_turn(&mut due) else { break };
            leases.extend(state.hand_out(id, holder, now.after(ttl)));
        }
        Ok(leases)
    }

    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error> {
        let mut state = self.state();
        let grip = state.tasks.get_mut(&task).and_then(|held| held.lease_with_epoch(epoch));
        let grip = grip.ok_or(Error::Fenced { task, epoch })?;
        grip.until = grip.until.max(until);
        Ok(())
    }

    async fn release(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), Error> {
        let mut state = self.state();
        if let Some(held) = state.tasks.get_mut(&task)
            && held.lease_with_epoch(epoch).is_some()
        {
            held.lease = None;
            held.task.due = due;
            held.deliveries = deliveries;
        }
        Ok(())
    }

    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error> {
        let mut state = self.state();
        let Some(held) = state.tasks.get_mut(&task).filter(|held| held.lease.is_none()) else {
            return Ok(false);
        };
        held.task.due = held.task.due.min(due);
        Ok(true)
    }

    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        let state = self.state();
        let first = TaskId { execution: id, visit: 0, slot: 0 };
        let last = TaskId { execution: id, visit: u32::MAX, slot: u32::MAX };
        Ok(state.tasks.range(first..=last).map(|(_, held)| held.task.clone()).collect())
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        let state = self.state();
        let next = state.tasks.values().map(TaskState::available).min();
        Ok(next.filter(|_| state.hold.is_none()))
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        let mut state = self.state();
        if state.hold.is_none() {
            state.tasks.values_mut().for_each(|held| held.deliveries = held.deliveries.max(1));
            state.hold = Some(hold);
        }
        Ok(())
    }

    async fn current_hold(&self) -> Result<Option<Hold>, Error> {
        Ok(self.state().hold.clone())
    }

    async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        let ended = self.state().hold.take_if(|hold| hold.since == since);
        Ok(ended.is_some())
    }

    async fn health(&self) -> Health {
        let state = self.state();
        let live = state.records.values().map(|record| record.body.len()).sum::<usize>()
            + state.documents.values().map(|document| document.body.len()).sum::<usize>()
            + state.entries.values().map(|entry| entry.detail.len()).sum::<usize>();
        Health {
            writable: true,
            sequence: state.sequence,
            live_bytes: live as u64,
            commits: state.sequence.0,
            tasks: state.tasks.len() as u64,
            hold: state.hold.clone(),
            ..Health::default()
        }
    }
}
