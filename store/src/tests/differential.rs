//! The embedded store behaves like the reference, operation by operation, over restarts.

use crate::{
    Attributes, Commit, Embedded, Erase, Error, Key, Lease, Memory, Page, Put, Query, Read, Record, Revision,
    Sequence, Settle, Store, Task, TaskId, Timestamp, Write,
    embedded::{
        format::{index_keys, key},
        index::rows_in,
    },
    tests::{dump::dump, fixture::*, rng::Random},
};
use std::{collections::BTreeSet, path::Path, time::Duration};

const EXECUTIONS: u64 = 12;
const TENANTS: &[&str] = &["t-0", "t-1", "t-2"];
const TTL: Duration = Duration::from_millis(20);

struct Pair {
    memory: Memory,
    embedded: Embedded,
    random: Random,
    now: u64,
    /// Leases of the two stores, of the same tasks, with their own epochs.
    leases: Vec<(Lease, Lease)>,
}

/// Returns an error without the epoch, which differs between stores.
fn comparable<T>(result: Result<T, Error>) -> Result<T, Error> {
    result.map_err(|error| match error {
        Error::Fenced { task, .. } => Error::Fenced { task, epoch: crate::Epoch(0) },
        other => other,
    })
}

fn without_epoch(lease: &Lease) -> Lease {
    Lease { epoch: crate::Epoch(0), ..lease.clone() }
}

impl Pair {
    async fn step(&mut self) {
        match self.random.below(10) {
            0 => self.lease().await,
            1 => self.touch_lease().await,
            _ => self.commit().await,
        }
    }

    async fn lease(&mut self) {
        self.now += self.random.below(15);
        let limit = usize::try_from(self.random.below(4)).unwrap();
        let mine = self.memory.lease("w", Timestamp(self.now), TTL, limit).await.unwrap();
        let theirs = self.embedded.lease("w", Timestamp(self.now), TTL, limit).await.unwrap();
        let bare = |leases: &[Lease]| leases.iter().map(without_epoch).collect::<Vec<_>>();
        assert_eq!(bare(&mine), bare(&theirs));
        self.leases.extend(mine.into_iter().zip(theirs));
    }

    async fn touch_lease(&mut self) {
        if self.leases.is_empty() {
            return;
        }
        let (mine, theirs) = self.random.pick(&self.leases).clone();
        let until = Timestamp(self.now + self.random.below(60));
        if self.random.one_in(3) {
            let id = self.task_id();
            assert_eq!(self.memory.hasten(id, until).await, self.embedded.hasten(id, until).await);
        } else if self.random.one_in(2) {
            let renewed = comparable(self.memory.renew(mine.task.id, mine.epoch, until).await);
            assert_eq!(renewed, comparable(self.embedded.renew(theirs.task.id, theirs.epoch, until).await));
        } else {
            self.memory.release(mine.task.id, mine.epoch, until, mine.deliveries).await.unwrap();
            self.embedded.release(theirs.task.id, theirs.epoch, until, theirs.deliveries).await.unwrap();
        }
    }

    async fn commit(&mut self) {
        let mut mine = self.random_commit().await;
        let mut theirs = mine.clone();
        if !self.leases.is_empty() && self.random.one_in(3) {
            let at = usize::try_from(self.random.below(self.leases.len() as u64)).unwrap();
            let (a, b) = self.leases[at].clone();
            mine.settle = Some(Settle { task: a.task.id, epoch: a.epoch });
            theirs.settle = Some(Settle { task: b.task.id, epoch: b.epoch });
            if self.random.one_in(3) {
                mine.schedule.push(a.task.clone());
                theirs.schedule.push(a.task);
            }
        }
        assert_eq!(
            comparable(self.memory.commit(mine.clone()).await),
            comparable(self.embedded.commit(theirs).await),
            "{mine:?}"
        );
    }

    async fn random_commit(&mut self) -> Commit {
        let mut commit = Commit::default();
        if self.random.one_in(2) {
            commit.record = Some(self.write().await);
        }
        for _ in 0..self.random.below(3) {
            let key = self.key();
            let seen = self.memory.document(&key).await.unwrap().map(|document| document.version);
            let version = if self.random.one_in(6) { Some(Sequence(self.random.below(40))) } else { seen };
            commit.reads.push(Read { key, version });
        }
        for _ in 0..self.random.below(4) {
            let size = if self.random.one_in(20) { 130_000 } else { self.random.below(300) };
            let body = vec![b'a' + (size % 26) as u8; usize::try_from(size).unwrap()];
            commit.documents.push(Put { key: self.key(), body: (!self.random.one_in(3)).then_some(body) });
        }
        for _ in 0..self.random.below(3) {
            commit.journal.push(entry(self.random.below(EXECUTIONS)));
        }
        for _ in 0..self.random.below(3) {
            let id = self.task_id();
            let body = self.random.next().to_string().into_bytes();
            commit.schedule.push(Task { id, due: Timestamp(self.now + self.random.below(50)), body });
        }
        if self.random.one_in(5) {
            commit.retire.push(self.task_id());
        }
        if self.random.one_in(6) {
            let execution = id(self.random.below(EXECUTIONS));
            let found = self.memory.load(execution).await.unwrap().map(|record| record.revision);
            let entries = usize::try_from(1 + self.random.below(3)).unwrap();
            let upto = Sequence(if self.random.one_in(2) { u64::MAX } else { self.random.below(200) });
            commit.erase = Some(Erase { execution, expected: found.unwrap_or_default(), upto, entries });
        }
        commit
    }

    async fn write(&mut self) -> Write {
        let n = self.random.below(EXECUTIONS);
        let found = self.memory.load(id(n)).await.unwrap().map(|record| record.revision);
        let expected = if self.random.one_in(6) { Some(Revision(self.random.below(5))) } else { found };
        let record = Record {
            tenant: (*self.random.pick(TENANTS)).to_owned(),
            guard: (!self.random.one_in(4)).then(|| format!("g-{}", self.random.below(6))),
            open: !self.random.one_in(3),
            state: format!("S{}", self.random.below(4)),
            updated_at: Timestamp(self.random.below(4) * 86_400_000),
            attributes: self.attributes(),
            body: vec![b'x'; if self.random.one_in(20) { 150_000 } else { 100 }],
            ..record(n)
        };
        Write { record, expected }
    }

    fn attributes(&mut self) -> Attributes {
        let mut attributes = Attributes::new();
        for _ in 0..self.random.below(4) {
            let field = (*self.random.pick(&["error", "action"])).to_owned();
            attributes.entry(field).or_default().insert(format!("v-{}", self.random.below(3)));
        }
        attributes
    }

    fn key(&mut self) -> Key {
        Key::new("nodes", format!("n-{}", self.random.below(15)))
    }

    fn task_id(&mut self) -> TaskId {
        let execution = id(self.random.below(EXECUTIONS));
        TaskId { execution, visit: 1, slot: u32::try_from(self.random.below(3)).unwrap() }
    }

    async fn compare(&self) {
        let ids: Vec<_> = (0..EXECUTIONS).map(id).collect();
        let (mine, theirs) =
            (dump(&self.memory, &ids, TENANTS).await, dump(&self.embedded, &ids, TENANTS).await);
        assert_eq!(mine, theirs);
        assert_eq!(self.memory.next_due().await, self.embedded.next_due().await);
        let Page { items, next } = self.embedded.documents("nodes", "n-1", None, 2).await.unwrap();
        assert_eq!(self.memory.documents("nodes", "n-1", None, 2).await.unwrap(), Page { items, next });
    }
}

/// Returns the terms in the index of the closed store in `dir`.
fn terms_in(dir: &Path) -> BTreeSet<Vec<u8>> {
    let rows = rows_in(&dir.join("index"), &[key::INDEX_KEY], &[key::INDEX_KEY + 1]);
    rows.into_iter().map(|(key, _)| key.into_vec()).collect()
}

/// Versions before blocks stored each row as a row of sled, and their statistics elsewhere.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_of_a_version_without_blocks_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let (embedded, _) = open(folder.path(), options());
    for n in 0..700 {
        embedded.commit(crate::tests::fixture::nth(n)).await.unwrap();
    }
    embedded.close().await.unwrap();
    drop(embedded);
    let index = folder.path().join("index");
    let rows = rows_in(&index, &[], key::META);
    std::fs::remove_dir_all(&index).unwrap();
    let db = sled::open(&index).unwrap();
    for (key, value) in rows {
        db.insert(key, value).unwrap();
    }
    db.insert([0xFF], b"an account".as_slice()).unwrap();
    drop(db);

    let (embedded, report) = open(folder.path(), options());

    assert!(report.rebuilt_index.is_some(), "{report}");
    let found = embedded.search(&Query::is("subject", "tenant/t-650"), None, 10).await.unwrap();
    assert_eq!(found.items.iter().map(|record| record.id).collect::<Vec<_>>(), [id(650)]);
    embedded.close().await.unwrap();
}

/// S14.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_behaves_like_the_memory_store() {
    for seed in 1..=6 {
        let folder = tempfile::tempdir().unwrap();
        let (embedded, _) = open(folder.path(), options());
        let random = Random::new(seed);
        let mut pair = Pair { memory: Memory::new(), embedded, random, now: 1, leases: Vec::new() };
        for _ in 0..4 {
            for _ in 0..120 {
                pair.step().await;
            }
            pair.compare().await;
        }
        pair.embedded.close().await.unwrap();
    }
}

/// Leases end with the process, so each of the two stores begins its series without any.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_behaves_like_the_memory_store_over_restarts() {
    for seed in 100..=104 {
        let folder = tempfile::tempdir().unwrap();
        let (embedded, _) = open(folder.path(), options());
        let random = Random::new(seed);
        let mut pair = Pair { memory: Memory::new(), embedded, random, now: 1, leases: Vec::new() };
        for round in 0..6 {
            for _ in 0..60 {
                pair.commit().await;
            }
            pair.compare().await;
            if round % 2 == 0 {
                pair.embedded.close().await.unwrap()
            } else {
                pair.embedded.kill().await
            }
            drop(pair.embedded);
            if round % 3 == 2 {
                std::fs::remove_dir_all(folder.path().join("index")).unwrap();
            }
            let (embedded, report) = open(folder.path(), options());
            assert_eq!(report.rebuilt_index.is_some(), round % 3 == 2, "{report}");
            pair.embedded = embedded;
            pair.compare().await;
        }
        pair.embedded.close().await.unwrap();
        drop(pair.embedded);
        let records = pair.memory.search(&Query::All, None, usize::MAX).await.unwrap().items;
        assert_eq!(terms_in(folder.path()), records.iter().flat_map(index_keys::for_record).collect());
    }
}
