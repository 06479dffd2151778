//! The store as the engine sees it: one conditional, atomic write, and reads.

use crate::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Page, Query, Receipt, Record, Sequence, Task, TaskId, Timestamp,
};
use async_trait::async_trait;
use std::time::Duration;

/// How many records one page of [`Store::search`] looks at, at the most.
pub const SEARCH_SCAN_LIMIT: usize = 1_000;

/// A durable, shared memory of executions and documents.
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
    /// Applies `commit` if all its conditions hold.
    ///
    /// # Errors
    /// [`Error::Conflict`] when the record or a read document has moved on, [`Error::Invalid`] when what is to be erased is
    /// open, [`Error::Fenced`] when the settled task is
    /// not held under that epoch, [`Error::Busy`] when another open record holds the guard, [`Error::TooLarge`] past a
    /// documented limit, [`Error::Full`] when the disk has no room, [`Error::Unavailable`] when it cannot be known
    /// whether the change is durable.
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

    /// Up to `limit` history entries of all executions in the order of commits, each with its place within its commit,
    /// beginning after `after`. What is committed later stands later: whoever has read up to an entry has missed none before it.
    /// Entries written by versions of Tenure that kept no such order are not among them.
    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error>;

    /// Up to `limit` records that `filter` accepts, by id (oldest first), beginning after `after`. A record that
    /// cannot be read is passed over and reported by [`Store::unreadable`].
    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error>;

    /// Up to `limit` records that `query` accepts, by id (oldest first), beginning after `after`. A store may end a page
    /// early, as `partial`, once it has looked at [`SEARCH_SCAN_LIMIT`] records; it then goes on from `next`. What is said of
    /// [`Store::list`] and of unreadable records holds here.
    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error>;

    /// Executions whose record exists but cannot be decoded, each with the reason.
    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error>;

    /// The document of `key`, or `None`.
    async fn document(&self, key: &Key) -> Result<Option<Document>, Error>;

    /// The documents of `keys`, in their order. Not of one moment: a decision makes each of them a condition of its commit.
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

    /// Hands out up to `limit` tasks that are due at `now` and not leased, each for `ttl`.
    ///
    /// Tenants take turns: the next one goes to the tenant that was served longest ago, by this store since it was opened,
    /// and is its earliest. So with `k` tenants that have something due, each gets one of any `k` in a row, whatever the
    /// others have waiting. A store that processes share, with a backlog, hands out before all else what a process that is
    /// gone had begun: its tenant has had that turn. A task belongs to the tenant of its execution's record; while there is none, to nobody's share.
    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error>;

    /// Hands out the one task whose turn it is, as [`Store::lease`] would, if that takes neither a disk nor a network. `None` where it
    /// would, and where nothing is due. For whoever has just finished one, and goes on without being told to.
    fn lease_from_memory(&self, _holder: &str, _now: Timestamp, _ttl: Duration) -> Option<Lease> {
        None
    }

    /// Prolongs a lease until `until`.
    ///
    /// # Errors
    /// [`Error::Fenced`] when the task is no longer held under `epoch`.
    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error>;

    /// Hands a task back undone, to be leased again at `due`, as if it had been handed out `deliveries` times so far.
    /// Passes over a task that is not held under `epoch`.
    async fn release(&self, task: TaskId, epoch: Epoch, due: Timestamp, deliveries: u32)
    -> Result<(), Error>;

    /// Makes a task that nobody holds due at `due`, if it would be due later. Says whether there is such a task. Not kept
    /// over a restart, any more than a release is.
    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error>;

    /// The tasks of one execution, by id.
    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error>;

    /// When the next task falls due or the next lease lapses; `None` when there is neither, and while the store is held.
    async fn next_due(&self) -> Result<Option<Timestamp>, Error>;

    /// Hands out no work from here on, to whomever, until [`Store::unhold`]; leases that stand may be used until they lapse. All
    /// tasks that there are count as handed out at least once. A store that is held stays as it was held first.
    async fn hold(&self, hold: Hold) -> Result<(), Error>;

    /// Since when and why the store hands out no work, or `None`.
    async fn current_hold(&self) -> Result<Option<Hold>, Error>;

    /// Ends the hold that began at `since`. Says whether there was such a one.
    async fn unhold(&self, since: Timestamp) -> Result<bool, Error>;

    /// Comes back when another process may have added work, or moved it; never, where there is no other process. Some
    /// of what others do may be missed, so [`Store::next_due`] is to be asked at intervals as well.
    async fn wait_for_changes(&self) {
        std::future::pending().await
    }

    /// How the store is.
    async fn health(&self) -> Health;

    /// Returns true if large bodies are stored as pages.
    fn is_paged(&self) -> bool {
        false
    }
}
