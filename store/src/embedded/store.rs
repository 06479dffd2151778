//! The embedded store as a [`Store`].

use super::{
    commit::writer::{self, Request, Work},
    folder::space,
    format::{codec, key},
    handle::{Embedded, ROOM, closed},
    shared::{Component, RunMode},
};
use crate::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Page, Query, Receipt, Record, SEARCH_SCAN_LIMIT, Sequence, Store, Task, TaskId, Timestamp, model::limits,
    sync::lock_unpoisoned,
};
use async_trait::async_trait;
use std::{sync::atomic::Ordering, time::Duration};
use tokio::sync::oneshot;

#[async_trait]
impl Store for Embedded {
    async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        let bytes = limits::check(&commit)?;
        if let Some(done) = writer::commit_inline(&self.writer, &self.waiting, &commit, bytes) {
            // A caller that commits in a loop yields to others on its thread.
            tokio::task::consume_budget().await;
            return done;
        }
        let room = u32::try_from(bytes.div_ceil(ROOM)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(room).await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let request = Request { commit, bytes, reply, _room: room };
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.inbox.send(Work::Commit(Box::new(request))).map_err(|_| closed())?;
        // Without an answer the writer ended before or during this commit.
        answer
            .await
            .map_err(|_| Error::Unavailable { why: "the store was closed during the commit".into() })?
    }

    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        let key = key::record(id);
        let waiting = self.shared.memtable().get(&key);
        match waiting {
            Some(None) => Ok(None),
            Some(Some(value)) => self.shared.decode(id, &key, codec::record(&key, value.as_ref())).map(Some),
            None => self.read(move |shared| shared.load(id)).await,
        }
    }

    async fn guard_holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error> {
        let key = key::guard(guard);
        self.read(move |shared| {
            let value = shared.get(&key)?;
            value.map(|value| codec::decoded(&key, codec::guard(&key, value.as_ref()))).transpose()
        })
        .await
    }

    async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error> {
        self.read(move |shared| shared.read_journal(id, after, limit)).await
    }

    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error> {
        self.read(move |shared| shared.read_history(after, limit)).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error> {
        let query = Query::from(filter);
        let Found { items, next, .. } =
            self.read(move |shared| shared.search(&query, after, limit, usize::MAX)).await?;
        Ok(Page { items, next })
    }

    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error> {
        let query = query.clone();
        self.read(move |shared| shared.search(&query, after, limit, SEARCH_SCAN_LIMIT)).await
    }

    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error> {
        let unreadable = lock_unpoisoned(&self.shared.unreadable);
        Ok(unreadable.iter().map(|(id, why)| (*id, why.clone())).collect())
    }

    async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        limits::check_key(key)?;
        let stored = key::document(&key.collection, &key.id);
        let waiting = {
            let memtable = self.shared.memtable();
            if memtable.is_absent(&stored) { Some(None) } else { memtable.get(&stored) }
        };
        match waiting {
            Some(None) => Ok(None),
            Some(Some(value)) => codec::decoded(&stored, codec::document(&stored, value.as_ref())).map(Some),
            None => {
                let key = key.clone();
                self.read(move |shared| shared.read_document(&key)).await
            }
        }
    }

    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        limits::check_collection(collection)?;
        let (collection, prefix, after) =
            (collection.to_owned(), prefix.to_owned(), after.map(str::to_owned));
        self.read(move |shared| shared.read_documents(&collection, &prefix, after.as_deref(), limit)).await
    }

    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error> {
        // Most polls find nothing, and need no other thread.
        if lock_unpoisoned(&self.shared.tasks).next().is_none_or(|next| next > now) {
            return Ok(Vec::new());
        }
        // A single task needs no other thread either: the task scheduled last is usually in memory.
        let at_hand = || self.shared.hand_out_at_once(holder, now, now.after(ttl));
        let first = if limit > 0 { at_hand() } else { None };
        let more = limit > 1 && lock_unpoisoned(&self.shared.tasks).next().is_some_and(|next| next <= now);
        if first.is_some() && !more {
            return Ok(first.into_iter().collect());
        }
        let (holder, until) = (holder.to_owned(), now.after(ttl));
        let left = limit.saturating_sub(usize::from(first.is_some()));
        match (first, self.read(move |shared| shared.hand_out(&holder, now, until, left)).await) {
            (Some(first), Ok(others)) => Ok(std::iter::once(first).chain(others).collect()),
            // Leased tasks are returned; failed reads are retried.
            (Some(first), Err(_)) => Ok(vec![first]),
            (None, others) => others,
        }
    }

    fn lease_from_memory(&self, holder: &str, now: Timestamp, ttl: Duration) -> Option<Lease> {
        self.shared.hand_out_at_once(holder, now, now.after(ttl))
    }

    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error> {
        let renewed = lock_unpoisoned(&self.shared.tasks).renew(task, epoch, until);
        if renewed { Ok(()) } else { Err(Error::Fenced { task, epoch }) }
    }

    async fn release(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), Error> {
        self.shared.hand_back(task, epoch, due, deliveries);
        Ok(())
    }

    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error> {
        Ok(lock_unpoisoned(&self.shared.tasks).hasten(task, due))
    }

    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        self.read(move |shared| shared.read_tasks(id)).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        Ok(if self.shared.is_held() { None } else { lock_unpoisoned(&self.shared.tasks).next() })
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        self.read(move |shared| shared.hold(hold)).await
    }

    async fn current_hold(&self) -> Result<Option<Hold>, Error> {
        Ok(lock_unpoisoned(&self.shared.hold).clone())
    }

    async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        self.read(move |shared| shared.unhold(since)).await
    }

    async fn health(&self) -> Health {
        let shared = &self.shared;
        let dir = shared.dir.clone();
        let disk_bytes = self.read(move |_| Ok(space::folder_bytes(&dir))).await.unwrap_or_default();
        let stats = shared.index().stats();
        let sequence = shared.memtable().last();
        let waiting = shared.memtable().bytes() as u64;
        // Separate statements: leasing locks `held` before `tasks`, so these must not be locked inside each other.
        let tasks = lock_unpoisoned(&shared.tasks).len() as u64;
        let held = lock_unpoisoned(&shared.hold).clone();
        let problems = lock_unpoisoned(&shared.problems).clone();
        let blocks =
            |part: &Component| matches!(part, Component::Journal | Component::Index | Component::Space);
        // The writer ends only when it is stopped, or by a bug.
        let ended = self.inbox.is_closed().then_some("the journal writer has ended; restart the process");
        let (groups, sync_seconds) = {
            let tallies = lock_unpoisoned(&shared.counters.tallies);
            (tallies.groups.clone(), tallies.seconds.clone())
        };
        let told: Vec<&str> = problems.values().map(String::as_str).chain(ended).collect();
        Health {
            writable: ended.is_none() && !problems.keys().any(blocks) && shared.run_mode() == RunMode::Run,
            problem: (!told.is_empty()).then(|| told.join("; ")),
            sequence,
            live_bytes: stats.live.saturating_add(waiting),
            disk_bytes,
            written_bytes: shared.counters.written.load(Ordering::Relaxed),
            retries: 0,
            syncs: shared.counters.syncs.load(Ordering::Relaxed),
            commits: shared.counters.commits.load(Ordering::Relaxed),
            index_lag: sequence.0.saturating_sub(stats.applied.0),
            tasks,
            hold: held,
            free_bytes: shared.space.free(),
            groups,
            sync_seconds,
        }
    }
}
