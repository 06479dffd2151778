//! A store in memory that counts read and written rows and bytes, and rejects rows of more than 64 KiB.
//!
//! It is below the store that splits large bodies into pages, so it counts the rows of a database or disk.

use async_trait::async_trait;
use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};
use store::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Memory, Page, Query, Receipt, Record, Sequence, Store, Task, TaskId, Timestamp,
};

/// The largest accepted row, in bytes.
const ROW: usize = 64 << 10;

/// Rows and bytes so far. Bytes count bodies, not keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowCounts {
    /// Commits.
    pub commits: u64,
    /// Read records and documents.
    pub rows_read: u64,
    /// Bytes of read records and documents.
    pub bytes_read: u64,
    /// Written records, documents and history entries.
    pub rows_written: u64,
    /// Bytes of written records, documents and history entries.
    pub bytes_written: u64,
    /// The largest written row, in bytes.
    pub largest_row: u64,
}

impl RowCounts {
    /// Returns the difference to `before`. The largest row is that of the whole time.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            commits: self.commits.saturating_sub(before.commits),
            rows_read: self.rows_read.saturating_sub(before.rows_read),
            bytes_read: self.bytes_read.saturating_sub(before.bytes_read),
            rows_written: self.rows_written.saturating_sub(before.rows_written),
            bytes_written: self.bytes_written.saturating_sub(before.bytes_written),
            largest_row: self.largest_row,
        }
    }
}

/// A store that counts rows and bytes.
pub(super) struct Counted {
    inner: Memory,
    commits: AtomicU64,
    rows_read: AtomicU64,
    bytes_read: AtomicU64,
    rows_written: AtomicU64,
    bytes_written: AtomicU64,
    largest_row: AtomicU64,
}

impl Counted {
    pub(super) fn new() -> Self {
        let none = || AtomicU64::new(0);
        Self {
            inner: Memory::with_row_limit(ROW),
            commits: none(),
            rows_read: none(),
            bytes_read: none(),
            rows_written: none(),
            bytes_written: none(),
            largest_row: none(),
        }
    }

    pub(super) fn counts(&self) -> RowCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        RowCounts {
            commits: read(&self.commits),
            rows_read: read(&self.rows_read),
            bytes_read: read(&self.bytes_read),
            rows_written: read(&self.rows_written),
            bytes_written: read(&self.bytes_written),
            largest_row: read(&self.largest_row),
        }
    }

    fn count_read(&self, bytes: usize) {
        self.rows_read.fetch_add(1, Ordering::Relaxed);
        self.bytes_read.fetch_add(length(bytes), Ordering::Relaxed);
    }

    fn count_written(&self, bytes: usize) {
        self.rows_written.fetch_add(1, Ordering::Relaxed);
        self.bytes_written.fetch_add(length(bytes), Ordering::Relaxed);
        self.largest_row.fetch_max(length(bytes), Ordering::Relaxed);
    }
}

fn length(bytes: usize) -> u64 {
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[async_trait]
impl Store for Counted {
    async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        let record = commit.record.iter().map(|write| write.record.body.len());
        let documents = commit.documents.iter().map(|put| put.body.as_ref().map_or(0, Vec::len));
        let journal = commit.journal.iter().map(|entry| entry.detail.len());
        let rows: Vec<usize> = record.chain(documents).chain(journal).collect();
        let receipt = self.inner.commit(commit).await?;
        self.commits.fetch_add(1, Ordering::Relaxed);
        rows.into_iter().for_each(|bytes| self.count_written(bytes));
        Ok(receipt)
    }

    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        let found = self.inner.load(id).await?;
        found.iter().for_each(|record| self.count_read(record.body.len()));
        Ok(found)
    }

    async fn guard_holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error> {
        self.inner.guard_holder(guard).await
    }

    async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error> {
        let page = self.inner.journal(id, after, limit).await?;
        page.items.iter().for_each(|entry| self.count_read(entry.detail.len()));
        Ok(page)
    }

    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error> {
        self.inner.history(after, limit).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error> {
        let page = self.inner.list(filter, after, limit).await?;
        page.items.iter().for_each(|record| self.count_read(record.body.len()));
        Ok(page)
    }

    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error> {
        self.inner.search(query, after, limit).await
    }

    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error> {
        self.inner.unreadable().await
    }

    async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        let found = self.inner.document(key).await?;
        found.iter().for_each(|document| self.count_read(document.body.len()));
        Ok(found)
    }

    async fn documents_of(&self, keys: &[Key]) -> Result<Vec<Option<Document>>, Error> {
        let found = self.inner.documents_of(keys).await?;
        found.iter().flatten().for_each(|document| self.count_read(document.body.len()));
        Ok(found)
    }

    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        let page = self.inner.documents(collection, prefix, after, limit).await?;
        page.items.iter().for_each(|document| self.count_read(document.body.len()));
        Ok(page)
    }

    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error> {
        self.inner.lease(holder, now, ttl, limit).await
    }

    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error> {
        self.inner.renew(task, epoch, until).await
    }

    async fn release(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), Error> {
        self.inner.release(task, epoch, due, deliveries).await
    }

    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error> {
        self.inner.hasten(task, due).await
    }

    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        self.inner.tasks(id).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.inner.next_due().await
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        self.inner.hold(hold).await
    }

    async fn current_hold(&self) -> Result<Option<Hold>, Error> {
        self.inner.current_hold().await
    }

    async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        self.inner.unhold(since).await
    }

    async fn health(&self) -> Health {
        self.inner.health().await
    }
}
