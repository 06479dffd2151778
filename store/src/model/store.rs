//! The store as the engine sees it: one conditional, atomic write, and reads.

use crate::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Page, Query, Receipt, Record, Sequence, Task, TaskId, Timestamp,
};
use async_trait::async_trait;
use std::time::Duration;

/// The most records that one page of [`Store::search`] examines.
pub const SEARCH_SCAN_LIMIT: usize = 1_000;

/// Durable, shared storage of executions and documents.
///
/// # Guarantees
/// An implementor promises, and [`conformance`](crate::conformance) checks:
/// - `commit` is atomic, isolated and durable: when it returns `Ok`, the change survives the loss of power; when it
///   returns [`Error::Conflict`], [`Error::Busy`], [`Error::Fenced`] or [`Error::TooLarge`], nothing changed.
/// - A read sees every commit acknowledged before it began.
/// - History is appended: an entry stays as it was written until its execution is erased.
/// - At most one unexpired lease exists per task, and epochs only grow.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// Applies `commit` if all its conditions are true.
    ///
    /// # Errors
    /// - [`Error::Conflict`]: the record or a read document has changed.
    /// - [`Error::Invalid`]: the execution to erase is open.
    /// - [`Error::Fenced`]: the settled task is not leased with that epoch.
    /// - [`Error::Busy`]: another open record has the guard.
    /// - [`Error::TooLarge`]: a documented limit is exceeded.
    /// - [`Error::Full`]: the disk is full.
    /// - [`Error::Unavailable`]: it is unknown whether the change is durable.
    async fn commit(&self, commit: Commit) -> Result<Receipt, Error>;

    /// The record of `id`, or `None`.
    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error>;

    /// The open record that holds `guard`, or `None`.
    async fn guard_holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error>;

    /// Up to `limit` history entries of `id` in order, beginning after `after` = (sequence, place within its commit).
    async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error>;

    /// Returns up to `limit` history entries of all executions in the order of commits, each with its place within
    /// its commit, beginning after `after`. Later commits come later, so a reader that has read up to an entry has
    /// missed none before it. Entries of versions of Tenure without that order are not included.
    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error>;

    /// Up to `limit` records that `filter` accepts, by id (oldest first), beginning after `after`. A record that
    /// cannot be read is skipped and reported by [`Store::unreadable`].
    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error>;

    /// Returns up to `limit` records that match `query`, by id (oldest first), beginning after `after`. A store may
    /// end a page early, as `partial`, once it has examined [`SEARCH_SCAN_LIMIT`] records; the next page continues
    /// from `next`. Unreadable records are handled as in [`Store::list`].
    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error>;

    /// Executions whose record exists but cannot be decoded, each with the reason.
    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error>;

    /// The document of `key`, or `None`.
    async fn document(&self, key: &Key) -> Result<Option<Document>, Error>;

    /// Returns the documents of `keys`, in their order. They may be of different moments: a decision makes each a
    /// condition of its commit.
    async fn documents_of(&self, keys: &[Key]) -> Result<Vec<Option<Document>>, Error> {
        let mut found = Vec::with_capacity(keys.len());
        for key in keys {
            found.push(self.document(key).await?);
        }
        Ok(found)
    }

    /// Up to `limit` documents of `collection` whose id begins with `prefix`, by id, beginning after `after`. A page ends at one commit:
    /// if it shows a document of a commit, it shows those of all earlier commits.
    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error>;

    /// Leases up to `limit` tasks that are due at `now` and not leased, each for `ttl`.
    ///
    /// Tenants take turns: the next task is the earliest one of the tenant that was served longest ago by this store
    /// since it was opened. So with `k` tenants that have due tasks, each gets one of any `k` in a row, whatever the
    /// others have waiting. If processes share a store and there is a backlog, tasks of a crashed process are leased
    /// before others: their tenant already had that turn. A task belongs to the tenant of its execution's record;
    /// without a record,
    /// it has no tenant.
    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error>;

    /// Leases the next task as [`Store::lease`] does, if that needs neither a disk nor a network. Otherwise, and if
    /// nothing is due, returns `None`. For a worker that has just finished a task and continues.
    fn lease_from_memory(&self, _holder: &str, _now: Timestamp, _ttl: Duration) -> Option<Lease> {
        None
    }

    /// Renews a lease until `until`.
    ///
    /// # Errors
    /// Returns [`Error::Fenced`] if the task is no longer leased with `epoch`.
    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error>;

    /// Returns a task undone, to be leased again at `due`, with `deliveries` as its delivery count. Ignores a task
    /// that is not leased with `epoch`.
    async fn release(&self, task: TaskId, epoch: Epoch, due: Timestamp, deliveries: u32)
    -> Result<(), Error>;

    /// Makes an unleased task due at `due`, if it would be due later. Returns false if there is no such task. A
    /// restart discards the change, as for a release.
    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error>;

    /// The tasks of one execution, by id.
    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error>;

    /// Returns when the next task becomes due or the next lease expires; `None` if there is neither, or the store is
    /// held.
    async fn next_due(&self) -> Result<Option<Timestamp>, Error>;

    /// Leases no more work, for any caller, until [`Store::unhold`]. Existing leases may be used until they expire.
    /// All tasks count as delivered at least once. A store that is already held keeps its first hold.
    async fn hold(&self, hold: Hold) -> Result<(), Error>;

    /// Returns the hold, or `None`.
    async fn current_hold(&self) -> Result<Option<Hold>, Error>;

    /// Ends the hold that began at `since`. Returns false if there is no such hold.
    async fn unhold(&self, since: Timestamp) -> Result<bool, Error>;

    /// Returns when another process may have added or moved work; never returns without another process. Some changes
    /// may be missed, so [`Store::next_due`] must also be called at intervals.
    async fn wait_for_changes(&self) {
        std::future::pending().await
    }

    /// Returns the state of the store.
    async fn health(&self) -> Health;

    /// Returns true if large bodies are stored as pages.
    fn is_paged(&self) -> bool {
        false
    }
}
