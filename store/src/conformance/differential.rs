//! Compares several stores with random operations: answer by answer, and then by their content.

use super::{
    case::Outcome,
    fixture::{expect_ok, id, record, same},
};
use crate::{
    Attributes, Commit, Entry, Epoch, Erase, Error, Key, Lease, Put, Query, Read, Record, Revision, Sequence,
    Settle, Store, Task, TaskId, Timestamp, Write,
};
use std::{fmt::Debug, sync::Arc, time::Duration};

/// Executions of a sequence; each sequence has its own.
const EXECUTIONS: u64 = 3;
const TENANTS: &[&str] = &["t-0", "t-1"];
const TTL: Duration = Duration::from_millis(20);

/// The same numbers for the same seed.
#[derive(Clone, Debug)]
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 16) % end.max(1)
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Stores under comparison: each operation runs on all of them, and the answers must be equal.
pub struct Differential {
    stores: Vec<Arc<dyn Store>>,
    dice: Dice,
    /// Counts the sequences, and with it the names that they use.
    sequence: u64,
    now: u64,
    /// The leases of each store, in the same order; epochs differ between stores.
    leases: Vec<Vec<Lease>>,
}

/// Returns an error without the epoch, which differs between stores.
fn without_epoch<T>(result: Result<T, Error>) -> Result<T, Error> {
    result.map_err(|error| match error {
        Error::Fenced { task, .. } => Error::Fenced { task, epoch: Epoch(0) },
        other => other,
    })
}

/// Checks that all are equal to the first.
fn alike<T: PartialEq + Debug>(what: &str, all: Vec<T>) -> Outcome {
    let mut all = all.into_iter();
    let Some(first) = all.next() else { return Ok(()) };
    all.try_for_each(
        |other| if other == first { Ok(()) } else { Err(format!("{what}: {first:?}, and {other:?}")) },
    )
}

impl Differential {
    /// Creates a comparison of empty stores, the first of which is the reference, with a random seed.
    #[must_use]
    pub fn new(stores: Vec<Arc<dyn Store>>, seed: u64) -> Self {
        let dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        Self { stores, dice, sequence: 0, now: 1, leases: Vec::new() }
    }

    /// Runs `steps` operations on new executions and documents, and compares the results.
    ///
    /// # Errors
    /// Returns the first difference.
    pub async fn sequence(&mut self, steps: u64) -> Outcome {
        self.sequence += 1;
        self.leases.clear();
        for _ in 0..steps {
            match self.dice.below(8) {
                0 => self.lease().await?,
                1 => self.touch().await?,
                _ => self.commit().await?,
            }
        }
        self.compare().await?;
        self.clear().await
    }

    async fn lease(&mut self) -> Outcome {
        self.now += self.dice.below(15);
        let limit = usize::try_from(self.dice.below(4)).unwrap_or(1);
        let mut all = Vec::new();
        for store in &self.stores {
            all.push(expect_ok(store.lease("w", Timestamp(self.now), TTL, limit).await)?);
        }
        let bare = |leases: &Vec<Lease>| -> Vec<Lease> {
            leases.iter().map(|lease| Lease { epoch: Epoch(0), ..lease.clone() }).collect()
        };
        alike("leases", all.iter().map(bare).collect())?;
        let count = all.first().map_or(0, Vec::len);
        for place in 0..count {
            self.leases.push(all.iter().filter_map(|leases| leases.get(place).cloned()).collect());
        }
        Ok(())
    }

    fn some_lease(&mut self) -> Option<Vec<Lease>> {
        let place = self.dice.below(self.leases.len() as u64);
        self.leases.get(usize::try_from(place).ok()?).cloned()
    }

    async fn touch(&mut self) -> Outcome {
        let until = Timestamp(self.now + self.dice.below(60));
        let (kind, some) = (self.dice.below(3), self.some_lease());
        let task = self.task_id();
        let mut all = Vec::new();
        for (place, store) in self.stores.iter().enumerate() {
            let lease = some.as_ref().and_then(|leases| leases.get(place));
            let said = match (kind, lease) {
                (0, _) | (_, None) => format!("{:?}", store.hasten(task, until).await),
                (1, Some(lease)) => {
                    format!("{:?}", without_epoch(store.renew(lease.task.id, lease.epoch, until).await))
                }
                (_, Some(lease)) => {
                    let (id, epoch) = (lease.task.id, lease.epoch);
                    format!("{:?}", store.release(id, epoch, until, lease.deliveries).await)
                }
            };
            all.push(said);
        }
        alike("a touch", all)
    }

    async fn commit(&mut self) -> Outcome {
        let commit = self.random_commit().await?;
        let settles = if self.dice.one_in(3) { self.some_lease() } else { None };
        let anew = self.dice.one_in(3);
        let mut all = Vec::new();
        for (place, store) in self.stores.iter().enumerate() {
            let mut commit = commit.clone();
            if let Some(lease) = settles.as_ref().and_then(|leases| leases.get(place)) {
                commit.settle = Some(Settle { task: lease.task.id, epoch: lease.epoch });
                commit.schedule.extend(anew.then(|| lease.task.clone()));
            }
            all.push(without_epoch(store.commit(commit).await));
        }
        alike(&format!("{commit:?}"), all)
    }

    fn first(&self) -> Result<&Arc<dyn Store>, String> {
        self.stores.first().ok_or_else(|| "there is no store".into())
    }

    fn execution(&mut self) -> u64 {
        self.sequence * EXECUTIONS + self.dice.below(EXECUTIONS)
    }

    fn task_id(&mut self) -> TaskId {
        let execution = id(self.execution());
        TaskId { execution, visit: 1, slot: u32::try_from(self.dice.below(2)).unwrap_or(0) }
    }

    fn key(&mut self) -> Key {
        Key::new("nodes", format!("{}-{}", self.sequence, self.dice.below(4)))
    }

    async fn random_commit(&mut self) -> Result<Commit, String> {
        let mut commit = Commit::default();
        if !self.dice.one_in(3) {
            commit.record = Some(self.write().await?);
        }
        for _ in 0..self.dice.below(3) {
            let key = self.key();
            let seen = expect_ok(self.first()?.document(&key).await)?.map(|document| document.version);
            let version = if self.dice.one_in(6) { Some(Sequence(self.dice.below(40))) } else { seen };
            commit.reads.push(Read { key, version });
        }
        for _ in 0..self.dice.below(3) {
            let body = format!("{{\"n\":{}}}", self.dice.next()).into_bytes();
            commit.documents.push(Put { key: self.key(), body: (!self.dice.one_in(3)).then_some(body) });
        }
        for _ in 0..self.dice.below(3) {
            let execution = id(self.execution());
            commit.journal.push(self.entry(execution));
        }
        for _ in 0..self.dice.below(3) {
            let body = self.dice.next().to_string().into_bytes();
            let due = Timestamp(self.now + self.dice.below(50));
            commit.schedule.push(Task { id: self.task_id(), due, body });
        }
        if self.dice.one_in(5) {
            commit.retire.push(self.task_id());
        }
        if self.dice.one_in(6) {
            let execution = id(self.execution());
            let found = expect_ok(self.first()?.load(execution).await)?.map(|record| record.revision);
            let entries = usize::try_from(1 + self.dice.below(3)).unwrap_or(1);
            let upto = if self.dice.one_in(2) { Sequence(u64::MAX) } else { Sequence(self.dice.below(200)) };
            commit.erase = Some(Erase { execution, expected: found.unwrap_or_default(), upto, entries });
        }
        Ok(commit)
    }

    fn entry(&mut self, execution: crate::ExecutionId) -> Entry {
        Entry {
            sequence: Sequence(0),
            execution,
            at: Timestamp(self.now),
            actor: "ada".into(),
            event: format!("event-{}", self.dice.below(9)),
            from: "A".into(),
            to: "B".into(),
            detail: self.dice.next().to_string().into_bytes(),
        }
    }

    async fn write(&mut self) -> Result<Write, String> {
        let n = self.execution();
        let found = expect_ok(self.first()?.load(id(n)).await)?.map(|record| record.revision);
        let expected = if self.dice.one_in(6) { Some(Revision(self.dice.below(5))) } else { found };
        let mut attributes = Attributes::new();
        if self.dice.one_in(2) {
            attributes.entry("error".into()).or_default().insert(format!("v-{}", self.dice.below(3)));
        }
        let tenant =
            TENANTS.get(usize::try_from(self.dice.below(2)).unwrap_or(0)).copied().unwrap_or_default();
        let guard = format!("g-{}-{}", self.sequence, self.dice.below(2));
        let record = Record {
            tenant: tenant.into(),
            guard: (!self.dice.one_in(3)).then_some(guard),
            open: !self.dice.one_in(3),
            reason: self.dice.one_in(2).then(|| "why".into()),
            state: format!("S{}", self.dice.below(4)),
            updated_at: Timestamp(self.now),
            attributes,
            body: self.dice.next().to_string().into_bytes(),
            ..record(n)
        };
        Ok(Write { record, expected })
    }

    /// Returns the content of each store for this sequence.
    async fn compare(&mut self) -> Outcome {
        let ids: Vec<_> = (0..EXECUTIONS).map(|n| id(self.sequence * EXECUTIONS + n)).collect();
        let (mut journals, mut records, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        for store in &self.stores {
            let mut journal = Vec::new();
            for id in &ids {
                journal.push(expect_ok(store.journal(*id, None, 100).await)?.items);
            }
            journals.push(journal);
            let first = ids.first().map_or(Timestamp(0), crate::ExecutionId::created_at);
            let made = Query::CreatedBetween { from: first, until: Timestamp(u64::MAX) };
            records.push(expect_ok(store.search(&made, None, 100).await)?.items);
            let prefix = format!("{}-", self.sequence);
            let documents = expect_ok(store.documents("nodes", &prefix, None, 100).await)?.items;
            rest.push((documents, expect_ok(store.next_due().await)?));
        }
        alike("journals", journals)?;
        alike("records", records)?;
        alike("documents and the next moment", rest)
    }

    /// Removes the tasks of this sequence, so that they are not part of the next.
    async fn clear(&mut self) -> Outcome {
        let mut all = Vec::new();
        for store in &self.stores {
            let mut left = Vec::new();
            for n in 0..EXECUTIONS {
                left.extend(expect_ok(store.tasks(id(self.sequence * EXECUTIONS + n)).await)?);
            }
            let retire = left.iter().map(|task| task.id).collect();
            all.push((left, expect_ok(store.commit(Commit { retire, ..Commit::default() }).await)?));
        }
        alike("work", all)
    }

    /// Checks that the full histories are equal, entry by entry.
    ///
    /// # Errors
    /// Returns the first difference.
    pub async fn histories(&self) -> Outcome {
        let mut after = None;
        loop {
            let mut all = Vec::new();
            for store in &self.stores {
                all.push(expect_ok(store.history(after, 1_000).await)?);
            }
            after = all.first().and_then(|page| page.next);
            alike("histories", all)?;
            if after.is_none() {
                return same("the end", after, None);
            }
        }
    }
}
