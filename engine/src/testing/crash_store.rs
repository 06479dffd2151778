//! A store that crashes around one commit and comes back with its stored content.

use super::script::CrashPoint;
use async_trait::async_trait;
use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};
use store::{
    Commit, Document, Entry, Epoch, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease, Memory,
    Page, Query, Receipt, Record, Sequence, Store, Task, TaskId, Timestamp,
};

/// A store whose process crashes around one commit, and stays down until it is revived.
pub struct CrashStore {
    inner: Arc<Memory>,
    commits: AtomicUsize,
    crash_point: Option<CrashPoint>,
    dead: AtomicBool,
    /// The duration of each commit of a result.
    slow: Duration,
}

impl CrashStore {
    /// Wraps `inner`. It becomes unavailable around the commit of `cut`.
    #[must_use]
    pub fn new(inner: Arc<Memory>, cut: Option<CrashPoint>) -> Self {
        Self {
            inner,
            commits: AtomicUsize::new(0),
            crash_point: cut,
            dead: AtomicBool::new(false),
            slow: Duration::ZERO,
        }
    }

    /// Sets the duration of commits of results.
    #[must_use]
    pub fn with_delay(self, slow: Duration) -> Self {
        Self { slow, ..self }
    }

    /// Returns the number of tried commits, including the one with the crash.
    #[must_use]
    pub fn commits(&self) -> usize {
        self.commits.load(Ordering::SeqCst)
    }

    /// Returns true after the crash, until it is revived.
    #[must_use]
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Starts the next process on the stored content.
    pub fn revive(&self) {
        self.dead.store(false, Ordering::SeqCst);
    }

    fn alive(&self) -> Result<&Memory, store::Error> {
        if self.is_dead() { Err(dead()) } else { Ok(&self.inner) }
    }
}

fn dead() -> store::Error {
    store::Error::Unavailable { why: "the process crashed here".into() }
}

#[async_trait]
impl Store for CrashStore {
    async fn commit(&self, commit: Commit) -> Result<Receipt, store::Error> {
        // Other tasks run meanwhile, as with a disk.
        tokio::task::yield_now().await;
        if commit.settle.is_some() && !self.slow.is_zero() {
            tokio::time::sleep(self.slow).await;
        }
        let store = self.alive()?;
        let nth = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        let die = || {
            self.dead.store(true, Ordering::SeqCst);
            Err(dead())
        };
        if self.crash_point == Some(CrashPoint::Before(nth)) {
            return die();
        }
        let receipt = store.commit(commit).await?;
        if self.crash_point == Some(CrashPoint::After(nth)) { die() } else { Ok(receipt) }
    }
    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, store::Error> {
        self.alive()?.load(id).await
    }
    async fn guard_holder(&self, guard: &str) -> Result<Option<ExecutionId>, store::Error> {
        self.alive()?.guard_holder(guard).await
    }
    async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, store::Error> {
        self.alive()?.journal(id, after, limit).await
    }
    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, store::Error> {
        self.alive()?.history(after, limit).await
    }
    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, store::Error> {
        self.alive()?.list(filter, after, limit).await
    }
    async fn search(
        &self,
        query: &Query,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Found, store::Error> {
        self.alive()?.search(query, after, limit).await
    }
    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, store::Error> {
        self.alive()?.unreadable().await
    }
    async fn document(&self, key: &Key) -> Result<Option<Document>, store::Error> {
        self.alive()?.document(key).await
    }
    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, store::Error> {
        self.alive()?.documents(collection, prefix, after, limit).await
    }
    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, store::Error> {
        self.alive()?.lease(holder, now, ttl, limit).await
    }
    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), store::Error> {
        self.alive()?.renew(task, epoch, until).await
    }
    async fn release(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), store::Error> {
        self.alive()?.release(task, epoch, due, deliveries).await
    }
    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, store::Error> {
        self.alive()?.hasten(task, due).await
    }
    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, store::Error> {
        self.alive()?.tasks(id).await
    }
    async fn next_due(&self) -> Result<Option<Timestamp>, store::Error> {
        self.alive()?.next_due().await
    }
    async fn hold(&self, hold: Hold) -> Result<(), store::Error> {
        self.alive()?.hold(hold).await
    }
    async fn current_hold(&self) -> Result<Option<Hold>, store::Error> {
        self.alive()?.current_hold().await
    }
    async fn unhold(&self, since: Timestamp) -> Result<bool, store::Error> {
        self.alive()?.unhold(since).await
    }
    async fn health(&self) -> Health {
        self.inner.health().await
    }
}
