//! Checks and applies a commit.

use super::{ActiveLease, State, TaskState};
use crate::{
    Commit, Document, Entry, Epoch, Erase, Error, ExecutionId, Lease, Receipt, Revision, Sequence, Task,
    TaskId, Timestamp, Write,
};

impl State {
    /// The lease is checked first: a late worker must get a lease error, not a conflict.
    pub(crate) fn check(&self, commit: &Commit) -> Result<(), Error> {
        if let Some(settle) = commit.settle {
            let grip = self.tasks.get(&settle.task).and_then(|held| held.lease.as_ref());
            if grip.is_none_or(|grip| grip.epoch != settle.epoch) {
                return Err(Error::Fenced { task: settle.task, epoch: settle.epoch });
            }
        }
        if let Some(write) = &commit.record {
            let found = self.records.get(&write.record.id).map(|record| record.revision);
            if found != write.expected {
                return Err(Error::Conflict { what: format!("execution {}", write.record.id) });
            }
        }
        if let Some(erase) = &commit.erase {
            self.check_erase(erase)?;
        }
        for read in &commit.reads {
            if self.documents.get(&read.key).map(|document| document.version) != read.version {
                return Err(Error::Conflict { what: format!("document {}", read.key) });
            }
        }
        commit.record.as_ref().map_or(Ok(()), |write| self.check_guard(write))
    }

    fn check_erase(&self, erase: &Erase) -> Result<(), Error> {
        let what = format!("execution {}", erase.execution);
        match self.records.get(&erase.execution) {
            Some(record) if record.revision == erase.expected && record.open => {
                Err(Error::Invalid { what: format!("{what} is open and cannot be erased") })
            }
            Some(record) if record.revision == erase.expected => Ok(()),
            Some(_) | None => Err(Error::Conflict { what }),
        }
    }

    fn check_guard(&self, write: &Write) -> Result<(), Error> {
        let Some(guard) = write.record.guard.as_ref().filter(|_| write.record.open) else { return Ok(()) };
        match self.guards.get(guard) {
            Some(holder) if *holder != write.record.id => {
                Err(Error::Busy { guard: guard.clone(), holder: *holder })
            }
            Some(_) | None => Ok(()),
        }
    }

    pub(crate) fn apply(&mut self, commit: Commit) -> Receipt {
        self.sequence = Sequence(self.sequence.0.saturating_add(1));
        let sequence = self.sequence;
        let revision = commit.record.map(|write| self.write(write));
        for put in commit.documents {
            match put.body {
                Some(body) => {
                    let document = Document { key: put.key.clone(), version: sequence, body };
                    self.documents.insert(put.key, document);
                }
                None => {
                    self.documents.remove(&put.key);
                }
            }
        }
        for (place, entry) in (0..).zip(commit.journal) {
            self.order.insert((sequence, place), entry.execution);
            self.entries.insert((entry.execution, sequence, place), Entry { sequence, ..entry });
        }
        for gone in commit.settle.map(|settle| settle.task).into_iter().chain(commit.retire) {
            self.tasks.remove(&gone);
        }
        for task in commit.schedule {
            self.schedule(task);
        }
        let erased = commit.erase.is_some_and(|erase| self.erase(&erase));
        Receipt { sequence, revision, erased }
    }

    /// Returns true if the record was erased too.
    fn erase(&mut self, erase: &Erase) -> bool {
        let id = erase.execution;
        let of = (id, Sequence(0), 0)..=(id, Sequence(u64::MAX), u32::MAX);
        let oldest = self.entries.range(of.clone()).map(|(key, _)| *key);
        let oldest: Vec<_> = oldest.take_while(|key| key.1 <= erase.upto).take(erase.entries).collect();
        for key in oldest {
            self.entries.remove(&key);
            self.order.remove(&(key.1, key.2));
        }
        let last = self.entries.range(of).next().is_none();
        if last {
            self.records.remove(&id);
        }
        last
    }

    fn write(&mut self, write: Write) -> Revision {
        let mut record = write.record;
        record.revision = write.expected.unwrap_or_default().next();
        let id: ExecutionId = record.id;
        if let Some(guard) = self.records.get(&id).and_then(|old| old.guard.as_ref())
            && self.guards.get(guard) == Some(&id)
        {
            self.guards.remove(guard);
        }
        if let Some(guard) = record.guard.clone().filter(|_| record.open) {
            self.guards.insert(guard, id);
        }
        let revision = record.revision;
        self.records.insert(id, record);
        revision
    }

    fn schedule(&mut self, task: Task) {
        match self.tasks.get_mut(&task.id) {
            Some(held) => held.task = task,
            None => {
                self.tasks.insert(task.id, TaskState { task, deliveries: 0, lease: None });
            }
        }
    }

    pub(super) fn hand_out(&mut self, id: TaskId, holder: &str, until: Timestamp) -> Option<Lease> {
        let held = self.tasks.get_mut(&id)?;
        self.epoch = Epoch(self.epoch.0.saturating_add(1));
        held.deliveries = held.deliveries.saturating_add(1);
        held.lease = Some(ActiveLease { holder: holder.into(), epoch: self.epoch, until });
        let grip = held.lease.as_ref()?;
        Some(Lease {
            task: held.task.clone(),
            holder: grip.holder.clone(),
            epoch: grip.epoch,
            deliveries: held.deliveries,
            until: grip.until,
        })
    }
}
