//! Executions as they were decoded or written last, for the next event: a step looks at one record twice and decodes it once, and a large
//! execution is not decoded again for each result of its slots.
//!
//! A record's body decodes to the same execution always, so what was decoded of these bytes stays true for them. What is about to be
//! written stands for a record only if that has the very same bytes: whether it was committed, and by whom, does not matter. Bytes are
//! compared by their hash, with a seed that is drawn when the process starts.

use crate::{Execution, Workflow, core::known_step::KnownStep};
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
    sync::{Mutex, MutexGuard, PoisonError},
};
use store::{ExecutionId, Record};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// When so many are kept, all are forgotten: work that takes long decodes its record again.
const MAX_EXECUTIONS: usize = 4_096;
/// The same of those about to be written, which are large.
const MAX_WRITTEN: usize = 8;

/// An execution, with what is known of its step.
pub(crate) type Known<W> = (Execution<W>, KnownStep<W>);

struct CachedExecutions<W: Workflow> {
    /// Decoded from the body with this hash.
    read: HashMap<ExecutionId, (u128, Known<W>)>,
    /// About to be written as the body with this hash.
    written: HashMap<ExecutionId, (u128, Known<W>)>,
}

/// What was decoded or written and not asked for again yet.
pub(crate) struct ExecutionCache<W: Workflow> {
    cached: Mutex<CachedExecutions<W>>,
    seed: u64,
}

impl<W: Workflow> Default for ExecutionCache<W> {
    fn default() -> Self {
        let cached = CachedExecutions { read: HashMap::new(), written: HashMap::new() };
        Self { cached: Mutex::new(cached), seed: RandomState::new().hash_one(()) }
    }
}

impl<W: Workflow> ExecutionCache<W> {
    fn lock(&self) -> MutexGuard<'_, CachedExecutions<W>> {
        self.cached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hash(&self, record: &Record) -> u128 {
        xxh3_128_with_seed(&record.body, self.seed)
    }

    /// Keeps what `record` was decoded to.
    pub(crate) fn insert(&self, record: &Record, known: Known<W>) {
        if record.schema != W::SCHEMA {
            return;
        }
        let hash = self.hash(record);
        let mut cached = self.lock();
        if cached.read.len() >= MAX_EXECUTIONS {
            cached.read.clear();
        }
        cached.read.insert(record.id, (hash, known));
    }

    /// Keeps what is about to be written as the body of `next`.
    pub(super) fn insert_written(&self, next: &Record, known: Known<W>) {
        let hash = self.hash(next);
        let mut cached = self.lock();
        if cached.written.len() >= MAX_WRITTEN {
            cached.written.clear();
        }
        cached.written.insert(next.id, (hash, known));
    }

    /// The execution of this very record, if it is known; it is not kept any longer.
    pub(crate) fn take(&self, record: &Record) -> Option<Known<W>> {
        if record.schema != W::SCHEMA {
            return None;
        }
        let mut cached = self.lock();
        if !cached.read.contains_key(&record.id) && !cached.written.contains_key(&record.id) {
            return None;
        }
        let hash = self.hash(record);
        if let Some((of, known)) = cached.read.remove(&record.id)
            && of == hash
        {
            return Some(known);
        }
        if cached.written.get(&record.id).is_none_or(|(of, _)| *of != hash) {
            return None;
        }
        cached.written.remove(&record.id).map(|(_, known)| known)
    }
}
