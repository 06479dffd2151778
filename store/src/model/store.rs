//! The store as the engine sees it: one conditional, atomic write, and reads.

use crate::{
    Document, Entry, Epoch, Error, ExecutionId, Found, Hold, Key, Lease, Put, Query, Read, Record, Revision,
    Sequence, Tally, Task, TaskId, Timestamp,
};
use async_trait::async_trait;
use std::time::Duration;

/// A change, applied whole or not at all. Empty parts change nothing.
#[derive(Clone, Debug, Default)]
pub struct Commit {
    /// The execution's next version.
    pub record: Option<Write>,
    /// Documents that must still be as they were read.
    pub reads: Vec<Read>,
    /// Documents to write or delete.
    pub documents: Vec<Put>,
    /// History to append.
    pub journal: Vec<Entry>,
    /// Work to add, or to move to another moment.
    pub schedule: Vec<Task>,
    /// Work that is no longer wanted; names that do not exist are passed over.
    pub retire: Vec<TaskId>,
    /// The leased work that this commit concludes.
    pub settle: Option<Settle>,
    /// A finished execution to forget, or a part of its history.
    pub erase: Option<Erase>,
}

/// The removal of a finished execution: its oldest history entries, and once none is left its record too.
///
/// Long histories go in several commits, each of which may be the last: the record goes with the last of its entries and
/// not before, so that whoever is interrupted finds it again. Documents and tasks are not touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Erase {
    /// Which one; a commit that also writes its record, or adds to its history, is invalid.
    pub execution: ExecutionId,
    /// The version of its record.
    pub expected: Revision,
    /// Nothing after this commit is removed: an entry that stands later stays, and the record with it.
    pub upto: Sequence,
    /// The most history entries that this commit removes; at most [`ERASE_LIMIT`](crate::ERASE_LIMIT).
    pub entries: usize,
}

/// A record and the version it must follow.
#[derive(Clone, Debug)]
pub struct Write {
    /// The content; its `revision` is ignored.
    pub record: Record,
    /// The version it replaces, or `None` if the id must be new.
    pub expected: Option<Revision>,
}

/// The end of a leased task, fenced by the lease's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settle {
    /// The task, removed by the commit unless the same commit schedules it again (then without a lease).
    pub task: TaskId,
    /// The epoch under which the caller holds it.
    pub epoch: Epoch,
}

/// What a commit became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its place in the store's history; also the version of each document it wrote.
    pub sequence: Sequence,
    /// The record's new version, if it wrote one.
    pub revision: Option<Revision>,
    /// Whether it removed a record.
    pub erased: bool,
}

/// Which executions to list; an empty filter lists all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this tenant.
    pub tenant: Option<String>,
    /// Of this workflow.
    pub workflow: Option<String>,
    /// In this state.
    pub state: Option<String>,
    /// In this phase.
    pub phase: Option<String>,
    /// Parked for, or finished with, this reason.
    pub reason: Option<String>,
    /// About this subject.
    pub subject: Option<String>,
    /// Open (true) or finished (false).
    pub open: Option<bool>,
}

impl Filter {
    /// Whether `record` is wanted.
    #[must_use]
    pub fn accepts(&self, record: &Record) -> bool {
        let is = |wanted: &Option<String>, has: &str| wanted.as_deref().is_none_or(|wanted| wanted == has);
        is(&self.tenant, &record.tenant)
            && is(&self.workflow, &record.workflow)
            && is(&self.state, &record.state)
            && is(&self.phase, &record.phase)
            && is(&self.subject, &record.subject)
            && self.reason.as_deref().is_none_or(|wanted| record.reason.as_deref() == Some(wanted))
            && self.open.is_none_or(|open| open == record.open)
    }
}

impl From<&Filter> for Query {
    fn from(filter: &Filter) -> Self {
        let columns = [
            ("tenant", &filter.tenant),
            ("workflow", &filter.workflow),
            ("state", &filter.state),
            ("phase", &filter.phase),
            ("reason", &filter.reason),
            ("subject", &filter.subject),
        ];
        let named = columns.into_iter().filter_map(|(name, wanted)| Some(Self::is(name, wanted.as_ref()?)));
        let open = filter.open.map(|open| Self::is("open", open.to_string()));
        named.chain(open).fold(Self::All, Self::and)
    }
}

/// How many records one page of [`Store::search`] looks at, at the most.
pub const SEARCH_LOOKS: usize = 1_000;

/// A part of a list, and where the next part begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T, C> {
    /// The items, in order.
    pub items: Vec<T>,
    /// Pass it as `after` to go on; `None` at the end.
    pub next: Option<C>,
}

/// A part of the history of all executions: entries, each with its place within its commit.
pub type History = Page<(u32, Entry), (Sequence, u32)>;

/// How a store is, for `/readyz` and `/metrics`. Sizes in bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Health {
    /// False when commits are refused or late; `problem` says why.
    pub writable: bool,
    /// What is wrong and what to do, or `None`.
    pub problem: Option<String>,
    /// Commits so far.
    pub sequence: Sequence,
    /// Content: keys and values as last written.
    pub live_bytes: u64,
    /// Everything in the store's folder.
    pub disk_bytes: u64,
    /// Bytes sent to the device since the store was opened, for the journal and checkpoints.
    pub written_bytes: u64,
    /// Device syncs of the journal since the store was opened.
    pub syncs: u64,
    /// Commits since the store was opened, so that `commits / syncs` is the mean group.
    pub commits: u64,
    /// How often something was tried again since the store was opened, because a database did not take it.
    pub retries: u64,
    /// Commits that the index has not taken over yet.
    pub index_lag: u64,
    /// Tasks waiting or leased.
    pub tasks: u64,
    /// Since when and why no work is handed out.
    pub held: Option<Hold>,
    /// Free bytes of the volume that the store's folder is on, if it has one and that is known.
    pub free_bytes: Option<u64>,
    /// Commits that were made durable with one sync. Without bounds where nothing is known of it.
    pub groups: Tally,
    /// How long the device took for a write and its sync, in seconds. Without bounds where nothing is known of it.
    pub sync_seconds: Tally,
}

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
    async fn holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error>;

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
    /// early, as `partial`, once it has looked at [`SEARCH_LOOKS`] records; it then goes on from `next`. What is said of
    /// [`Store::list`] and of unreadable records holds here.
    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error>;

    /// Executions whose record exists but cannot be decoded, each with the reason.
    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error>;

    /// The document of `key`, or `None`.
    async fn document(&self, key: &Key) -> Result<Option<Document>, Error>;

    /// Up to `limit` documents of `collection` whose id begins with `prefix`, by id, beginning after `after`.
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
    fn lease_at_hand(&self, _holder: &str, _now: Timestamp, _ttl: Duration) -> Option<Lease> {
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
    async fn held(&self) -> Result<Option<Hold>, Error>;

    /// Ends the hold that began at `since`. Says whether there was such a one.
    async fn unhold(&self, since: Timestamp) -> Result<bool, Error>;

    /// Comes back when another process may have added work, or moved it; never, where there is no other process. Some
    /// of what others do may be missed, so [`Store::next_due`] is to be asked at intervals as well.
    async fn rung(&self) {
        std::future::pending().await
    }

    /// How the store is.
    async fn health(&self) -> Health;
}
