//! The reads of an embedded store, as they run on its reading threads.

use crate::{
    Document, Entry, Epoch, Error, ExecutionId, History, Key, Lease, Page, Record, Sequence, Task, TaskId,
    Timestamp,
    embedded::{
        format::{codec, key},
        memtable::Value,
        shared::{Component, Shared},
        tasks::PickedTask,
    },
    sync::lock_unpoisoned,
};
use std::ops::Bound;

/// Collects one item more than requested, to find out whether there are more.
struct PageCollector<T> {
    items: Vec<T>,
    limit: usize,
    more: bool,
}

impl<T> PageCollector<T> {
    fn new(limit: usize) -> Self {
        Self { items: Vec::new(), limit, more: false }
    }

    /// True if there may be more.
    fn push(&mut self, item: T) -> bool {
        if self.items.len() < self.limit {
            self.items.push(item);
            return true;
        }
        self.more = self.limit > 0;
        false
    }

    fn page<C>(self, cursor: impl FnOnce(&T) -> C) -> Page<T, C> {
        let next = if self.more { self.items.last().map(cursor) } else { None };
        Page { items: self.items, next }
    }
}

/// The tries to read a page of documents concurrently with commits; after them, commits wait.
const FREE_TRIES: usize = 3;

/// The documents of a page.
struct DocumentRange<'a> {
    collection: &'a str,
    prefix: &'a str,
    after: Option<&'a str>,
    limit: usize,
}

/// Receives rows until it returns false.
type Visit<'a> = &'a mut dyn FnMut(&[u8], Value) -> Result<bool, Error>;

impl DocumentRange<'_> {
    /// Returns the page that `scan` reads; `newest` becomes the last commit that is visible in it.
    fn read(
        &self,
        newest: &mut Sequence,
        scan: impl FnOnce(Bound<Vec<u8>>, &[u8], Visit<'_>) -> Result<(), Error>,
    ) -> Result<Page<Document, String>, Error> {
        let start = key::document(self.collection, self.prefix);
        let from = match self.after.filter(|after| *after >= self.prefix) {
            Some(after) => Bound::Excluded(key::document(self.collection, after)),
            None => Bound::Included(start.clone()),
        };
        let mut found = PageCollector::new(self.limit);
        scan(from, &key::documents_end(self.collection), &mut |key, value| {
            if !key.starts_with(&start) {
                return Ok(false);
            }
            let document = codec::decoded(key, codec::document(key, value.as_ref()))?;
            *newest = document.version.max(*newest);
            Ok(found.push(document))
        })?;
        Ok(found.page(|document| document.key.id.clone()))
    }
}

impl Shared {
    pub(crate) fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        let key = key::record(id);
        let value = self.get(&key)?;
        value.map(|value| self.decode(id, &key, codec::record(&key, value.as_ref()))).transpose()
    }

    pub(crate) fn read_document(&self, name: &Key) -> Result<Option<Document>, Error> {
        let key = key::document(&name.collection, &name.id);
        let removals = self.memtable().removals();
        let value = self.get(&key)?;
        if value.is_none() {
            self.memtable_mut().cache_absent(&key, removals);
        }
        value.map(|value| codec::decoded(&key, codec::document(&key, value.as_ref()))).transpose()
    }

    pub(crate) fn read_journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error> {
        let from = after.map_or(Bound::Included(key::entry(id, Sequence(0), 0)), |(sequence, place)| {
            Bound::Excluded(key::entry(id, sequence, place))
        });
        let mut to = key::entry(id, Sequence(u64::MAX), u32::MAX);
        to.push(0);
        let last = self.memtable().last();
        let mut found = PageCollector::new(limit);
        self.scan(from, &to, |key, value| {
            let (entry, place) = codec::decoded(key, codec::entry(key, value.as_ref()))?;
            // As in `read_history`.
            Ok(entry.sequence <= last && found.push((entry, place)))
        })?;
        let Page { items, next } = found.page(|(entry, place)| (entry.sequence, *place));
        Ok(Page { items: items.into_iter().map(|(entry, _)| entry).collect(), next })
    }

    pub(crate) fn read_history(
        &self,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<History, Error> {
        // The page ends here: of later commits, the index may contain some and not the ones before, because it
        // changes meanwhile.
        let last = self.memtable().last();
        let mut found = PageCollector::new(limit);
        self.scan(Bound::Included(key::order_after(after)), &key::order_end(), |key, _| {
            let Some(key::Name::Order(sequence, place, id)) = key::parse(key) else { return Ok(true) };
            if sequence > last {
                return Ok(false);
            }
            let key = key::entry(id, sequence, place);
            // Erased between the two reads, together with its mark.
            let Some(value) = self.get(&key)? else { return Ok(true) };
            let (entry, place) = codec::decoded(&key, codec::entry(&key, value.as_ref()))?;
            Ok(found.push((place, entry)))
        })?;
        Ok(found.page(|(place, entry)| (entry.sequence, *place)))
    }

    pub(crate) fn read_documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        let range = DocumentRange { collection, prefix, after, limit };
        for _ in 0..FREE_TRIES {
            let last = self.memtable().last();
            let mut newest = Sequence(0);
            let page = range.read(&mut newest, |from, to, visit| self.scan(from, to, visit))?;
            // The page may show a part of a later commit, because the index changes meanwhile.
            if newest <= last {
                return Ok(page);
            }
        }
        let memtable = self.memtable();
        range.read(&mut Sequence(0), |from, to, visit| self.scan_held(&memtable, from, to, visit))
    }

    pub(crate) fn read_tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        let first = key::task(TaskId { execution: id, visit: 0, slot: 0 });
        let mut to = key::task(TaskId { execution: id, visit: u32::MAX, slot: u32::MAX });
        to.push(0);
        let mut tasks = Vec::new();
        self.scan(Bound::Included(first), &to, |key, value| {
            if let Some(key::Name::Task(task)) = key::parse(key) {
                tasks.push(self.decode(id, key, codec::task(task, key, value.as_ref()))?.0);
            }
            Ok(true)
        })?;
        let held = lock_unpoisoned(&self.tasks);
        // A release moves a task only in memory; after a restart it is due as scheduled.
        for task in &mut tasks {
            task.due = held.get(task.id).map_or(task.due, |held| held.due);
        }
        Ok(tasks)
    }

    pub(crate) fn hand_out(
        &self,
        holder: &str,
        now: Timestamp,
        until: Timestamp,
        limit: usize,
    ) -> Result<Vec<Lease>, Error> {
        let held = lock_unpoisoned(&self.hold);
        if held.is_some() {
            return Ok(Vec::new());
        }
        let picked = lock_unpoisoned(&self.tasks).pick(now, until, limit);
        drop(held);
        if picked.is_empty() {
            return Ok(Vec::new());
        }
        self.note_deliveries(picked.iter().map(|picked| (picked.id, picked.since, picked.deliveries)));
        let mut leases = Vec::with_capacity(picked.len());
        for picked in picked {
            match self.body(picked.id) {
                Ok(Some(body)) => leases.push(leased(holder, picked, body)),
                // Removed between the pick and the read, by an acknowledged commit.
                Ok(None) => {}
                Err(Error::Corrupt { .. }) => lock_unpoisoned(&self.tasks).exclude(picked.id),
                Err(error) => {
                    tracing::error!("{} is due and cannot be read: {error}", picked.id);
                    lock_unpoisoned(&self.tasks).release(
                        picked.id,
                        picked.epoch,
                        picked.due,
                        picked.deliveries,
                    );
                }
            }
        }
        Ok(leases)
    }

    /// Returns a task. Its lower delivery count outlives the process too: after a kill, a task that was deferred
    /// untried must not be probed.
    pub(crate) fn hand_back(&self, id: TaskId, epoch: Epoch, due: Timestamp, deliveries: u32) {
        let mut tasks = lock_unpoisoned(&self.tasks);
        let before = tasks.get(id).map_or(0, |held| held.deliveries);
        tasks.release(id, epoch, due, deliveries);
        let held = tasks.get(id).map(|held| (held.since, held.deliveries));
        drop(tasks);
        let Some((since, now)) = held.filter(|(_, now)| *now != before) else { return };
        self.note_deliveries(std::iter::once((id, since, now)));
    }

    /// Returns the next task, unless its body must be read from the index.
    pub(crate) fn hand_out_at_once(&self, holder: &str, now: Timestamp, until: Timestamp) -> Option<Lease> {
        let held = lock_unpoisoned(&self.hold);
        let mut tasks = lock_unpoisoned(&self.tasks);
        let next = tasks.first(now).filter(|_| held.is_none())?;
        let key = key::task(next);
        // A separate statement, so that the memtable is locked only for it.
        let waiting = self.memtable().get(&key);
        let (task, _) = codec::task(next, &key, waiting??.as_ref()).ok()?;
        let picked = tasks.pick(now, until, 1).pop()?;
        drop(tasks);
        drop(held);
        self.note_deliveries(std::iter::once((picked.id, picked.since, picked.deliveries)));
        Some(leased(holder, picked, task.body))
    }

    fn note_deliveries(&self, rows: impl Iterator<Item = (TaskId, Sequence, u32)>) {
        if let Err(error) = lock_unpoisoned(&self.deliveries).append(rows) {
            self.report(Component::Deliveries, format!("delivery counts cannot be written: {error}"));
        }
    }

    /// Returns when a task is due, and its delivery count.
    pub(crate) fn due_and_deliveries(&self, id: TaskId) -> Option<(Timestamp, u32)> {
        lock_unpoisoned(&self.tasks).get(id).map(|held| (held.due, held.deliveries))
    }

    fn body(&self, id: TaskId) -> Result<Option<Vec<u8>>, Error> {
        let key = key::task(id);
        let value = self.get(&key)?;
        let task = value.map(|value| self.decode(id.execution, &key, codec::task(id, &key, value.as_ref())));
        Ok(task.transpose()?.map(|(task, _)| task.body))
    }
}

fn leased(holder: &str, picked: PickedTask, body: Vec<u8>) -> Lease {
    let PickedTask { id, due, epoch, deliveries, until, .. } = picked;
    Lease { task: Task { id, due, body }, holder: holder.to_owned(), epoch, deliveries, until }
}
