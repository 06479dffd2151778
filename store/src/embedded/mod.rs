//! The embedded store: a synced journal of commits, and sled behind it as the index.
//!
//! A commit is acknowledged once its frame in the journal is on the device; nothing else is synced on that path. The
//! index follows behind and can be made anew at any time from the last snapshot and the journal. Threads: one writes
//! the journal, one prepares its files, one feeds the index, one writes checkpoints, one looks after the others, and
//! some read. Formats, damage and limits are told in `docs/store.md`, the reasons in ADR 0002 and 0003.

pub(crate) mod commit;
mod event;
mod faults;
pub(crate) mod folder;
pub(crate) mod format;
pub(crate) mod index;
pub(crate) mod journal;
pub(crate) mod maintenance;
mod memtable;
pub(crate) mod open;
mod open_report;
mod options;
mod reads;
mod recovery;
mod search;
pub(crate) mod shared;
pub(crate) mod snapshot;
mod tasks;
pub(crate) mod threads;

pub use crate::embedded::open_report::Report;
pub use faults::{Faults, Hook};
pub use options::{FreeSpace, OnStall, Options};

use crate::embedded::{
    commit::{
        apply::locked,
        writer::{Request, Work, Writer},
    },
    shared::{Course, Shared},
    threads::{checkpoint::Wanted, readers::Readers},
};
use crate::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Page, Query, Receipt, Record, SEARCH_LOOKS, Sequence, Store, Task, TaskId, Timestamp, model::limits,
};
use async_trait::async_trait;
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc::SyncSender,
    },
    thread::JoinHandle,
    time::Duration,
};
use tokio::sync::{Semaphore, mpsc::UnboundedSender, oneshot};

/// Stands in a folder into which an import was begun and not ended.
pub(crate) const IMPORTING: &str = "IMPORTING";
/// The inbox counts in units of so many bytes.
const ROOM: usize = 1 << 10;

/// A store in a folder of its own, for one process.
///
/// [`Embedded::close`] leaves it tidy; a store that is dropped, or whose process is killed, loses nothing that was
/// acknowledged and opens a little slower.
pub struct Embedded {
    shared: Arc<Shared>,
    inbox: UnboundedSender<Work>,
    writer: Arc<Mutex<Writer>>,
    /// How many commits are in the inbox.
    waiting: Arc<AtomicUsize>,
    room: Arc<Semaphore>,
    readers: Mutex<Option<Arc<Readers>>>,
    wanted: Mutex<Option<SyncSender<Wanted>>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// An opened store, and what opening it found.
pub struct Opened {
    /// The store.
    pub store: Embedded,
    /// What was found, and what was done about it.
    pub report: Report,
}

fn closed() -> Error {
    Error::Unavailable { why: "the store is closed".into() }
}

impl Embedded {
    /// Opens the store in `dir`, or makes one there. Blocks for as long as reading the index and the journal takes.
    ///
    /// # Errors
    /// [`Error::Refused`] when the folder is in use, was written by a newer version, or is damaged beyond what its
    /// own parts can make good; [`Error::Unavailable`] when the file system fails.
    pub fn open(dir: &Path, options: Options) -> Result<Opened, Error> {
        open::open(dir, options)
    }

    /// Since when and why the store in `dir`, which is not open, is held.
    ///
    /// # Errors
    /// [`Error::Unavailable`] when the folder cannot be read.
    pub fn held_in(dir: &Path) -> Result<Option<Hold>, Error> {
        let unread = |error| Error::Unavailable { why: format!("{}: {error}", dir.display()) };
        maintenance::read(dir).map_err(unread)
    }

    fn readers(&self) -> Result<Arc<Readers>, Error> {
        locked(&self.readers).clone().ok_or_else(closed)
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        self.readers()?.read(&self.shared, read).await
    }

    /// Writes a snapshot of all that has been acknowledged and drops the journal before it. Commits go on meanwhile.
    ///
    /// # Errors
    /// [`Error::Full`] or [`Error::Unavailable`] when it cannot be written; the former snapshot and journal stay.
    pub async fn checkpoint(&self) -> Result<Sequence, Error> {
        let (reply, answer) = oneshot::channel();
        let wanted = locked(&self.wanted).clone().ok_or_else(closed)?;
        // The channel is as long as one checkpoint takes; whoever waits for it must not hold up the caller's runtime.
        self.read(move |_| wanted.send(reply).map_err(|_| closed())).await?;
        answer.await.map_err(|_| closed())?
    }

    /// Runs `read` while nothing is committed, and so on one state of the store. Commits wait meanwhile.
    pub(crate) async fn paused<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Shared) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let (paused, pausing) = oneshot::channel();
        let (resume, until) = std::sync::mpsc::channel();
        self.inbox.send(Work::Pause(paused, until)).map_err(|_| closed())?;
        pausing.await.map_err(|_| closed())?;
        let result = self.read(read).await;
        drop(resume);
        result
    }

    /// Commits what waits, brings the index up to date, and ends all threads. Commits from now on are refused.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if a thread ended in a panic; nothing acknowledged is lost by that.
    pub async fn close(&self) -> Result<(), Error> {
        self.end(Course::Drain).await
    }

    /// Ends all threads where they are, as if the process had been killed.
    #[cfg(test)]
    pub(crate) async fn kill(&self) {
        self.shared.steer(Course::Stop);
        self.end(Course::Stop).await.unwrap();
    }

    async fn end(&self, course: Course) -> Result<(), Error> {
        // An error means that the writer has ended already.
        let _ = self.inbox.send(Work::Stop);
        drop(locked(&self.readers).take());
        drop(locked(&self.wanted).take());
        let threads = std::mem::take(&mut *locked(&self.threads));
        let (shared, (done, ended)) = (self.shared.clone(), oneshot::channel());
        let join = move || {
            let ended = open::end(&shared, course, threads);
            // Before the answer: whoever has it may open the folder again.
            drop(shared);
            let _ = done.send(ended);
        };
        std::thread::Builder::new()
            .name("store-close".into())
            .spawn(join)
            .map_err(|error| Error::Unavailable { why: format!("no thread to close the store: {error}") })?;
        ended.await.map_err(|_| closed())?
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // Without waiting: this may run on a worker of the caller's runtime. The folder stays locked until the
        // threads have ended.
        let _ = self.inbox.send(Work::Stop);
        self.shared.steer(Course::Stop);
    }
}

#[async_trait]
impl Store for Embedded {
    async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        let bytes = limits::check(&commit)?;
        if let Some(done) = commit::writer::alone(&self.writer, &self.waiting, &commit, bytes) {
            // Whoever commits in a loop lets others on its thread have their turn, as when it was woken each time.
            tokio::task::consume_budget().await;
            return done;
        }
        let room = u32::try_from(bytes.div_ceil(ROOM)).unwrap_or(u32::MAX);
        let room = self.room.clone().acquire_many_owned(room).await.map_err(|_| closed())?;
        let (reply, answer) = oneshot::channel();
        let request = Request { commit, bytes, reply, _room: room };
        self.waiting.fetch_add(1, Ordering::AcqRel);
        self.inbox.send(Work::Commit(Box::new(request))).map_err(|_| closed())?;
        // Without an answer the writer ended before it came to this commit, or while it was about it.
        answer
            .await
            .map_err(|_| Error::Unavailable { why: "the store was closed during the commit".into() })?
    }

    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        let key = format::key::record(id);
        let waiting = self.shared.overlay().get(&key);
        match waiting {
            Some(None) => Ok(None),
            Some(Some(value)) => {
                self.shared.decode(id, &key, format::codec::record(&key, value.as_ref())).map(Some)
            }
            None => self.read(move |shared| shared.load(id)).await,
        }
    }

    async fn holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error> {
        let key = format::key::guard(guard);
        self.read(move |shared| {
            let value = shared.get(&key)?;
            value
                .map(|value| commit::apply::decoded(&key, format::codec::guard(&key, value.as_ref())))
                .transpose()
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
        self.read(move |shared| shared.search(&query, after, limit, SEARCH_LOOKS)).await
    }

    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error> {
        let unreadable = locked(&self.shared.unreadable);
        Ok(unreadable.iter().map(|(id, why)| (*id, why.clone())).collect())
    }

    async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        limits::check_key(key)?;
        let stored = format::key::document(&key.collection, &key.id);
        let waiting = {
            let overlay = self.shared.overlay();
            if overlay.is_absent(&stored) { Some(None) } else { overlay.get(&stored) }
        };
        match waiting {
            Some(None) => Ok(None),
            Some(Some(value)) => {
                commit::apply::decoded(&stored, format::codec::document(&stored, value.as_ref())).map(Some)
            }
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
        // Most polls find nothing; they cost no hand-over to another thread.
        if locked(&self.shared.tasks).next().is_none_or(|next| next > now) {
            return Ok(Vec::new());
        }
        // Nor does one that is alone: what was scheduled last is in memory as a rule.
        let at_hand = || self.shared.hand_out_at_once(holder, now, now.after(ttl));
        let first = if limit > 0 { at_hand() } else { None };
        let more = limit > 1 && locked(&self.shared.tasks).next().is_some_and(|next| next <= now);
        if first.is_some() && !more {
            return Ok(first.into_iter().collect());
        }
        let (holder, until) = (holder.to_owned(), now.after(ttl));
        let left = limit.saturating_sub(usize::from(first.is_some()));
        match (first, self.read(move |shared| shared.hand_out(&holder, now, until, left)).await) {
            (Some(first), Ok(others)) => Ok(std::iter::once(first).chain(others).collect()),
            // What is handed out is in its hands; what failed is asked for again.
            (Some(first), Err(_)) => Ok(vec![first]),
            (None, others) => others,
        }
    }

    fn lease_at_hand(&self, holder: &str, now: Timestamp, ttl: Duration) -> Option<Lease> {
        self.shared.hand_out_at_once(holder, now, now.after(ttl))
    }

    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error> {
        let renewed = locked(&self.shared.tasks).renew(task, epoch, until);
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
        Ok(locked(&self.shared.tasks).hasten(task, due))
    }

    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        self.read(move |shared| shared.read_tasks(id)).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        Ok(if self.shared.is_held() { None } else { locked(&self.shared.tasks).next() })
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        self.read(move |shared| shared.hold(hold)).await
    }

    async fn held(&self) -> Result<Option<Hold>, Error> {
        Ok(locked(&self.shared.held).clone())
    }

    async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        self.read(move |shared| shared.unhold(since)).await
    }

    async fn health(&self) -> Health {
        let shared = &self.shared;
        let dir = shared.dir.clone();
        let disk_bytes = self.read(move |_| Ok(open::folder_bytes(&dir))).await.unwrap_or_default();
        let account = shared.index().account();
        let sequence = shared.overlay().last();
        let waiting = shared.overlay().bytes() as u64;
        // Each in its own statement: whoever hands out locks `held` before `tasks`, and these must not be locked one within the other.
        let tasks = locked(&shared.tasks).len() as u64;
        let held = locked(&shared.held).clone();
        let problems = locked(&shared.problems).clone();
        let blocks = |part: &shared::Part| {
            matches!(part, shared::Part::Journal | shared::Part::Index | shared::Part::Space)
        };
        // The writer ends by itself only when it is told to, or by a fault of ours.
        let ended =
            self.inbox.is_closed().then_some("nothing writes to the journal any more; restart the process");
        let (groups, sync_seconds) = {
            let tallies = locked(&shared.counters.tallies);
            (tallies.groups.clone(), tallies.seconds.clone())
        };
        let told: Vec<&str> = problems.values().map(String::as_str).chain(ended).collect();
        Health {
            writable: ended.is_none() && !problems.keys().any(blocks) && shared.course() == Course::Run,
            problem: (!told.is_empty()).then(|| told.join("; ")),
            sequence,
            live_bytes: account.live.saturating_add(waiting),
            disk_bytes,
            written_bytes: shared.counters.written.load(Ordering::Relaxed),
            retries: 0,
            syncs: shared.counters.syncs.load(Ordering::Relaxed),
            commits: shared.counters.commits.load(Ordering::Relaxed),
            index_lag: sequence.0.saturating_sub(account.applied.0),
            tasks,
            held,
            free_bytes: shared.space.free(),
            groups,
            sync_seconds,
        }
    }
}
