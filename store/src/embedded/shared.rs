//! The state that the threads of an embedded store share.

use crate::{
    Error, ExecutionId, Histogram, Hold,
    embedded::{
        commit::apply::Lookup,
        event::EventCount,
        folder::{deliveries::Log, lock::Lock, space::Space},
        format::codec,
        index::Index,
        memtable::{Memtable, Value},
        options::Options,
        tasks::Tasks,
    },
    sync::{lock_unpoisoned, read_unpoisoned, write_unpoisoned},
};
use std::{
    collections::BTreeMap,
    ops::Bound,
    path::PathBuf,
    sync::{
        Arc, Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
};

/// A part of the store that can have a problem, in the order in which problems are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Component {
    Journal,
    Index,
    Space,
    Checkpoint,
    Deliveries,
}

/// How long the threads run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum RunMode {
    /// Until stopped.
    Run = 0,
    /// Until everything acknowledged is in the index.
    Drain = 1,
    /// No further.
    Stop = 2,
}

/// Up to how many commits share a sync.
const GROUPS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 256.0, 1024.0];
/// Bounds of sync times in seconds: 0.1 ms is a device with a durable cache, 1 s a device with problems.
const SYNCS: &[f64] = &[0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0];

/// The commits of one sync, and its duration.
#[derive(Debug)]
pub(crate) struct Syncs {
    pub(crate) groups: Histogram,
    pub(crate) seconds: Histogram,
}

impl Default for Syncs {
    fn default() -> Self {
        Self { groups: Histogram::between(GROUPS), seconds: Histogram::between(SYNCS) }
    }
}

/// Sums since the store was opened.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) tallies: Mutex<Syncs>,
    pub(crate) written: AtomicU64,
    pub(crate) syncs: AtomicU64,
    pub(crate) commits: AtomicU64,
    /// Journal bytes since the last checkpoint.
    pub(crate) since_checkpoint: AtomicU64,
    /// Length of the last snapshot, in bytes.
    pub(crate) snapshot: AtomicU64,
    /// Grows whenever the index thread gets something done.
    pub(crate) index_progress: AtomicU64,
}

pub(crate) struct Shared {
    pub(crate) dir: PathBuf,
    pub(crate) options: Options,
    pub(crate) memtable: RwLock<Memtable>,
    pub(crate) tasks: Mutex<Tasks>,
    pub(crate) index: RwLock<Arc<Index>>,
    pub(crate) deliveries: Mutex<Log>,
    /// Why nothing is leased. Locked before `tasks`.
    pub(crate) hold: Mutex<Option<Hold>>,
    pub(crate) unreadable: Mutex<BTreeMap<ExecutionId, String>>,
    pub(crate) space: Space,
    pub(crate) counters: Counters,
    pub(crate) problems: Mutex<BTreeMap<Component, String>>,
    pub(crate) opens: u64,
    /// Notified after a publication or a change of the run mode.
    pub(crate) published: EventCount,
    /// Notified when the index has applied rows.
    pub(crate) applied: EventCount,
    /// Notified when the run mode changed.
    pub(crate) mode_changed: EventCount,
    /// Held while snapshots and segments are removed, or relied on.
    pub(crate) files: Mutex<()>,
    pub(crate) run_mode: AtomicU8,
    pub(crate) _lock: Lock,
}

impl Shared {
    pub(crate) fn memtable(&self) -> RwLockReadGuard<'_, Memtable> {
        read_unpoisoned(&self.memtable)
    }

    pub(crate) fn memtable_mut(&self) -> RwLockWriteGuard<'_, Memtable> {
        write_unpoisoned(&self.memtable)
    }

    pub(crate) fn index(&self) -> Arc<Index> {
        read_unpoisoned(&self.index).clone()
    }

    pub(crate) fn run_mode(&self) -> RunMode {
        match self.run_mode.load(Ordering::Acquire) {
            0 => RunMode::Run,
            1 => RunMode::Drain,
            _ => RunMode::Stop,
        }
    }

    /// Sets a later run mode; never returns to an earlier one.
    pub(crate) fn set_run_mode(&self, run_mode: RunMode) {
        self.run_mode.fetch_max(run_mode as u8, Ordering::AcqRel);
        self.mode_changed.notify();
        self.published.notify();
        self.applied.notify();
    }

    pub(crate) fn report(&self, part: Component, why: String) {
        let mut problems = lock_unpoisoned(&self.problems);
        if problems.get(&part) != Some(&why) {
            tracing::error!(?part, "{why}");
            problems.insert(part, why);
        }
    }

    pub(crate) fn resolve(&self, part: Component) {
        if lock_unpoisoned(&self.problems).remove(&part).is_some() {
            tracing::info!(?part, "the store has recovered");
        }
    }

    pub(crate) fn problem(&self, part: Component) -> Option<String> {
        lock_unpoisoned(&self.problems).get(&part).cloned()
    }

    /// The acknowledged value of `key`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        // A separate statement, so that no lock is held while sled reads.
        let waiting = self.memtable().get(key);
        match waiting {
            Some(value) => Ok(value),
            None => self.index().get(key),
        }
    }

    /// Passes the acknowledged rows between `from` and `to` to `visit`, in order, until it returns false.
    pub(crate) fn scan(
        &self,
        from: Bound<Vec<u8>>,
        to: &[u8],
        visit: impl FnMut(&[u8], Value) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        // A separate statement each time, so that no lock is held while sled reads.
        self.scan_with(|from, to, limit| self.memtable().range(from, to, limit), from, to, visit)
    }

    /// Same as above for `memtable`, which is locked meanwhile: all rows are of one moment, and no commit is
    /// acknowledged until the end.
    pub(crate) fn scan_held(
        &self,
        memtable: &Memtable,
        from: Bound<Vec<u8>>,
        to: &[u8],
        visit: impl FnMut(&[u8], Value) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        self.scan_with(|from, to, limit| memtable.range(from, to, limit), from, to, visit)
    }

    fn scan_with(
        &self,
        range: impl Fn(Bound<&[u8]>, &[u8], usize) -> Vec<(Box<[u8]>, Option<Value>)>,
        from: Bound<Vec<u8>>,
        to: &[u8],
        mut visit: impl FnMut(&[u8], Value) -> Result<bool, Error>,
    ) -> Result<(), Error> {
        const STEP: usize = 256;
        let mut from = from;
        loop {
            let start = from.as_ref().map(Vec::as_slice);
            let waiting = range(start, to, STEP);
            let indexed = self.index().range(start, to, STEP)?;
            // If two full pages end at different keys, only keys up to the smaller one are known.
            let ends = [
                waiting.last().filter(|_| waiting.len() == STEP).map(|(key, _)| key.clone()),
                indexed.last().filter(|_| indexed.len() == STEP).map(|(key, _)| key.clone()),
            ];
            let end = ends.into_iter().flatten().min();
            let mut rows: BTreeMap<Box<[u8]>, Option<Value>> =
                indexed.into_iter().map(|(key, value)| (key, Some(value))).collect();
            rows.extend(waiting);
            for (key, value) in rows {
                if end.as_ref().is_some_and(|end| key > *end) {
                    break;
                }
                if let Some(value) = value
                    && !visit(&key, value)?
                {
                    return Ok(());
                }
            }
            match end {
                Some(end) => from = Bound::Excluded(end.into_vec()),
                None => return Ok(()),
            }
        }
    }

    /// Up to `limit` acknowledged keys from `from` to before `to`, in order.
    fn keys_between(&self, from: Vec<u8>, to: &[u8], limit: usize) -> Result<Vec<Box<[u8]>>, Error> {
        let mut keys = Vec::new();
        self.scan(Bound::Included(from), to, |key, _| {
            keys.push(key.into());
            Ok(keys.len() < limit)
        })?;
        Ok(keys)
    }

    /// Decodes a value, and remembers the execution of one that cannot be decoded.
    pub(crate) fn decode<T>(
        &self,
        of: ExecutionId,
        key: &[u8],
        result: Result<T, String>,
    ) -> Result<T, Error> {
        result.map_err(|why| {
            let what = codec::describe(key);
            lock_unpoisoned(&self.unreadable).insert(of, format!("{what} is unreadable: {why}"));
            Error::Corrupt { what, why }
        })
    }
}

impl Lookup for Shared {
    fn get(&self, key: &[u8]) -> Result<Option<Value>, Error> {
        Self::get(self, key)
    }

    fn keys(&self, from: Vec<u8>, to: &[u8], limit: usize) -> Result<Vec<Box<[u8]>>, Error> {
        self.keys_between(from, to, limit)
    }
}

/// Raises the priority of threads that callers wait for: on Linux each thread has its own. A refusal does no harm.
pub(crate) fn lower_priority() {
    const NICE: i32 = 5;
    if let Err(error) = rustix::process::setpriority_process(None, NICE) {
        tracing::debug!(%error, "this thread keeps its normal priority");
    }
}
