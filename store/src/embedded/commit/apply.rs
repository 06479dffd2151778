//! Checks a commit and builds its rows.
//!
//! The writer checks commits in order, against the acknowledged rows and those of the current frame. So the commits
//! of one frame see each other as if each had been synced separately.

use crate::{
    Commit, Erase, Error, Receipt, Record, Revision, Sequence, Task, TaskId, Write,
    embedded::{
        format::{codec, envelope::Kind, key},
        journal::frame::{Builder, Place},
        memtable::{Changed, Value},
        tasks::{Change, Tasks},
    },
    sync::lock_unpoisoned,
};
use std::{
    collections::{BTreeSet, HashMap},
    ops::Bound,
    sync::Mutex,
};

/// The acknowledged rows.
pub(crate) trait Lookup {
    /// Returns the value of a key.
    fn get(&self, key: &[u8]) -> Result<Option<Value>, Error>;

    /// Returns up to `limit` keys from `from` to before `to`, in order.
    fn keys(&self, from: Vec<u8>, to: &[u8], limit: usize) -> Result<Vec<Box<[u8]>>, Error>;
}

/// The current frame, and its changes.
pub(crate) struct Group {
    pub(crate) builder: Builder,
    pub(crate) changed: Changed,
    pub(crate) changes: Vec<Change>,
    pub(crate) claimed: Vec<TaskId>,
    /// Tasks that the frame changes: the commit they count from, or `None` if removed.
    tasks: HashMap<TaskId, Option<Sequence>>,
}

impl Group {
    pub(crate) fn new(first: Sequence) -> Self {
        Self {
            builder: Builder::new(first),
            changed: Changed::new(),
            changes: Vec::new(),
            claimed: Vec::new(),
            tasks: HashMap::new(),
        }
    }

    /// Adds `commit` to the frame if all its conditions hold; otherwise the frame stays as it is.
    pub(crate) fn add(
        &mut self,
        commit: &Commit,
        lookup: &dyn Lookup,
        tasks: &Mutex<Tasks>,
    ) -> Result<Receipt, Error> {
        self.check_fence(commit, &mut lock_unpoisoned(tasks))?;
        let added = self.add_fenced(commit, lookup, tasks);
        if let Some(settle) = commit.settle {
            match added {
                Ok(_) => self.claimed.push(settle.task),
                Err(_) => lock_unpoisoned(tasks).unclaim(settle.task),
            }
        }
        added
    }

    fn add_fenced(
        &mut self,
        commit: &Commit,
        lookup: &dyn Lookup,
        tasks: &Mutex<Tasks>,
    ) -> Result<Receipt, Error> {
        let former = commit.record.as_ref().map_or(Ok(None), |write| self.stored_head(write, lookup))?;
        let erased = commit.erase.as_ref().map(|erase| self.rows_to_erase(erase, lookup)).transpose()?;
        self.check_reads(commit, lookup)?;
        if let Some(write) = &commit.record {
            self.check_guard(write, lookup)?;
        }
        let sequence = self.builder.next();
        self.builder.begin();
        let mut rows = Rows { builder: &mut self.builder, changed: Vec::new(), sequence };
        let result = write_rows(&mut rows, commit, former.as_ref());
        let (gone, erased) = erased.unwrap_or_default();
        gone.into_iter().for_each(|key| rows.delete(key));
        let Rows { changed, .. } = rows;
        let result = result.and_then(|revision| {
            let tenants = self.tenants(commit, lookup)?;
            self.change_tasks(commit, sequence, &lock_unpoisoned(tasks), tenants).map(|()| revision)
        });
        let revision = match result {
            Ok(revision) => revision,
            Err(error) => {
                self.builder.undo();
                return Err(error);
            }
        };
        self.changed.extend(changed.into_iter().map(|(key, place)| (key, (sequence, place))));
        let owner = former.as_ref().map(|head| head.tenant.as_str());
        if let Some(write) = commit.record.as_ref().filter(|write| owner != Some(&write.record.tenant)) {
            self.changes.push(Change::Tenant(write.record.id, write.record.tenant.clone()));
        }
        if let Some(erase) = commit.erase.as_ref().filter(|_| erased) {
            // The rest of its tasks have no owner.
            self.changes.push(Change::Tenant(erase.execution, String::new()));
        }
        self.builder.end_commit();
        Ok(Receipt { sequence, revision, erased })
    }

    fn value<T>(
        &self,
        key: &[u8],
        lookup: &dyn Lookup,
        decode: impl FnOnce(&[u8]) -> Result<T, String>,
    ) -> Result<Option<T>, Error> {
        let stored = match self.changed.get(key) {
            Some((_, None)) => return Ok(None),
            Some((_, Some(place))) => {
                return codec::decoded(key, decode(self.builder.value(place))).map(Some);
            }
            None => lookup.get(key)?,
        };
        stored.map(|value| codec::decoded(key, decode(value.as_ref()))).transpose()
    }

    /// The lease is checked first: a late worker must get a lease error, not a conflict. The task is reserved from
    /// here on, so that the answer stays true until it is on disk.
    fn check_fence(&self, commit: &Commit, tasks: &mut Tasks) -> Result<(), Error> {
        let Some(settle) = commit.settle else { return Ok(()) };
        let fenced = Err(Error::Fenced { task: settle.task, epoch: settle.epoch });
        match self.tasks.get(&settle.task) {
            Some(None) => return fenced,
            // Scheduled again in this frame: an earlier lease does not apply to it.
            Some(Some(since)) if tasks.get(settle.task).is_none_or(|held| held.since != *since) => {
                return fenced;
            }
            Some(Some(_)) | None => {}
        }
        if !tasks.is_held_under(settle.task, settle.epoch) {
            return fenced;
        }
        tasks.claim(settle.task);
        Ok(())
    }

    fn stored_head(&self, write: &Write, lookup: &dyn Lookup) -> Result<Option<codec::HeadV1>, Error> {
        let key = key::record(write.record.id);
        let former = self.value(&key, lookup, |value| codec::record_head(&key, value))?;
        if former.as_ref().map(|head| Revision(head.revision)) != write.expected {
            return Err(Error::Conflict { what: format!("execution {}", write.record.id) });
        }
        Ok(former)
    }

    fn check_reads(&self, commit: &Commit, lookup: &dyn Lookup) -> Result<(), Error> {
        for read in &commit.reads {
            let key = key::document(&read.key.collection, &read.key.id);
            let version = self.value(&key, lookup, |value| codec::document_version(&key, value))?;
            if version != read.version {
                return Err(Error::Conflict { what: format!("document {}", read.key) });
            }
        }
        Ok(())
    }

    fn check_guard(&self, write: &Write, lookup: &dyn Lookup) -> Result<(), Error> {
        let Some(guard) = guard_of(&write.record) else { return Ok(()) };
        let key = key::guard(guard);
        match self.value(&key, lookup, |value| codec::guard(&key, value))? {
            Some(holder) if holder != write.record.id => Err(Error::Busy { guard: guard.to_owned(), holder }),
            Some(_) | None => Ok(()),
        }
    }

    /// The rows that an erasure removes, and whether the record is among them. Rows of the current frame count.
    fn rows_to_erase(&self, erase: &Erase, lookup: &dyn Lookup) -> Result<(Vec<Vec<u8>>, bool), Error> {
        let id = erase.execution;
        let record = key::record(id);
        let head = self.value(&record, lookup, |value| codec::record_head(&record, value))?;
        let head = head.filter(|head| Revision(head.revision) == erase.expected);
        let head = head.ok_or_else(|| Error::Conflict { what: format!("execution {id}") })?;
        if head.open {
            return Err(Error::Invalid { what: format!("execution {id} is open and cannot be erased") });
        }
        let (from, to) = key::entries(id);
        let (mut entries, mut more, mut after) = (BTreeSet::new(), true, from.clone());
        while more && entries.len() <= erase.entries {
            let found = lookup.keys(after, &to, erase.entries.saturating_add(1))?;
            after = found.last().map(|last| [last, &[0][..]].concat()).unwrap_or_default();
            more = found.len() > erase.entries;
            let gone = |key: &[u8]| matches!(self.changed.get(key), Some((_, None)));
            entries.extend(found.into_iter().filter(|key| !gone(key)));
        }
        let waiting = self.changed.range::<[u8], _>((Bound::Included(&*from), Bound::Excluded(&*to)));
        entries.extend(waiting.filter(|(_, (_, place))| place.is_some()).map(|(key, _)| key.clone()));
        let mut last = entries.len() <= erase.entries;
        let mut rows = Vec::new();
        for entry in entries.into_iter().take(erase.entries) {
            if let Some(key::Name::Entry(_, sequence, place)) = key::parse(&entry) {
                if sequence > erase.upto {
                    last = false;
                    break;
                }
                rows.push(key::order(sequence, place, id));
            }
            rows.push(entry.into_vec());
        }
        if last {
            rows.extend([record, key::tenant(&head.tenant, id)]);
        }
        Ok((rows, last))
    }

    /// Returns the tenant of each task that `commit` schedules: that of its execution, or none without a record.
    fn tenants(&self, commit: &Commit, lookup: &dyn Lookup) -> Result<Vec<String>, Error> {
        let own = commit.record.as_ref().map(|write| (write.record.id, &write.record.tenant));
        let tenant = |task: &Task| {
            let of = task.id.execution;
            if let Some((_, tenant)) = own.filter(|(id, _)| *id == of) {
                return Ok(tenant.clone());
            }
            let key = key::record(of);
            // A record that cannot be read is reported when the task runs, and blocks no other commit.
            let head = match self.value(&key, lookup, |value| codec::record_head(&key, value)) {
                Err(Error::Corrupt { .. }) => None,
                found => found?,
            };
            Ok(head.map(|head| head.tenant).unwrap_or_default())
        };
        commit.schedule.iter().map(tenant).collect()
    }

    /// Adds the rows and task changes; settled and retired tasks come before scheduled ones, as in [`Commit`].
    fn change_tasks(
        &mut self,
        commit: &Commit,
        sequence: Sequence,
        tasks: &Tasks,
        tenants: Vec<String>,
    ) -> Result<(), Error> {
        // Everything is encoded before any change, so that a refusal leaves the frame unchanged.
        let mut noted: Vec<(Box<[u8]>, Place, Change)> = Vec::new();
        let gone: Vec<TaskId> =
            commit.settle.iter().map(|settle| settle.task).chain(commit.retire.iter().copied()).collect();
        for id in &gone {
            let exists = self.tasks.get(id).map_or(tasks.get(*id).is_some(), Option::is_some);
            if exists {
                let key = key::task(*id);
                let place = self.builder.delete(&key);
                noted.push((key.into(), place, Change::Remove(*id)));
            }
        }
        for (task, tenant) in commit.schedule.iter().zip(tenants) {
            let kept = match self.tasks.get(&task.id) {
                Some(since) => *since,
                None => tasks.get(task.id).map(|held| held.since),
            };
            let since = kept.filter(|_| !gone.contains(&task.id)).unwrap_or(sequence);
            let key = key::task(task.id);
            let place = self.builder.put(&key, |out| codec::put_task(out, &key, task, since))?;
            noted.push((key.into(), place, Change::Put { id: task.id, due: task.due, since, tenant }));
        }
        for (key, place, change) in noted {
            self.changed.insert(key, (sequence, place));
            match &change {
                Change::Remove(id) => _ = self.tasks.insert(*id, None),
                Change::Put { id, since, .. } => _ = self.tasks.insert(*id, Some(*since)),
                Change::Tenant(..) => {}
            }
            self.changes.push(change);
        }
        Ok(())
    }
}

fn guard_of(record: &Record) -> Option<&str> {
    record.guard.as_deref().filter(|_| record.open)
}

/// The rows of one commit, before they are added to the frame.
struct Rows<'a> {
    builder: &'a mut Builder,
    changed: Vec<(Box<[u8]>, Place)>,
    sequence: Sequence,
}

impl Rows<'_> {
    fn put(
        &mut self,
        key: Vec<u8>,
        value: impl FnOnce(&mut Vec<u8>, &[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let place = self.builder.put(&key, |out| value(out, &key))?;
        self.changed.push((key.into(), place));
        Ok(())
    }

    fn delete(&mut self, key: Vec<u8>) {
        let place = self.builder.delete(&key);
        self.changed.push((key.into(), place));
    }
}

fn write_rows(
    rows: &mut Rows<'_>,
    commit: &Commit,
    former: Option<&codec::HeadV1>,
) -> Result<Option<Revision>, Error> {
    let revision = commit.record.as_ref().map(|write| write_record(rows, write, former)).transpose()?;
    let sequence = rows.sequence;
    for put in &commit.documents {
        let key = key::document(&put.key.collection, &put.key.id);
        match &put.body {
            Some(body) => rows.put(key, |out, key| codec::put_document(out, key, sequence, body))?,
            None => rows.delete(key),
        }
    }
    for (place, entry) in (0..).zip(&commit.journal) {
        rows.put(key::entry(entry.execution, sequence, place), |out, key| codec::put_entry(out, key, entry))?;
        let order = key::order(sequence, place, entry.execution);
        rows.put(order, |out, key| codec::put_mark(out, key, Kind::Order))?;
    }
    Ok(revision)
}

/// Adds the record and its secondary rows: its guard, its tenant, and the mark of open ones.
fn write_record(
    rows: &mut Rows<'_>,
    write: &Write,
    former: Option<&codec::HeadV1>,
) -> Result<Revision, Error> {
    let record = &write.record;
    let revision = write.expected.unwrap_or_default().next();
    rows.put(key::record(record.id), |out, key| codec::put_record(out, key, record, revision))?;
    let guarded = former.and_then(|head| head.guard.as_deref().filter(|_| head.open));
    let guard = guard_of(record);
    if guarded != guard {
        if let Some(guard) = guarded {
            rows.delete(key::guard(guard));
        }
        if let Some(guard) = guard {
            rows.put(key::guard(guard), |out, key| codec::put_guard(out, key, record.id))?;
        }
    }
    let was_open = former.is_some_and(|head| head.open);
    if record.open && !was_open {
        rows.put(key::open(record.id), |out, key| codec::put_mark(out, key, Kind::Open))?;
    } else if was_open && !record.open {
        rows.delete(key::open(record.id));
    }
    let tenant = former.map(|head| head.tenant.as_str());
    if tenant != Some(record.tenant.as_str()) {
        if let Some(tenant) = tenant {
            rows.delete(key::tenant(tenant, record.id));
        }
        rows.put(key::tenant(&record.tenant, record.id), |out, key| codec::put_mark(out, key, Kind::Tenant))?;
    }
    Ok(revision)
}
