//! A cache of decoded or written executions for their next event: a step reads one record twice and decodes it once,
//! and a large execution is not decoded again for each result of its slots.
//!
//! The same body always decodes to the same execution, so an entry stays valid for its bytes. A pending write is used
//! for a record only if the record has the same bytes. Bytes are compared by their hash, with a random seed for each
//! process.

use crate::{Execution, Workflow, core::known_step::KnownStep};
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
    sync::{Mutex, MutexGuard, PoisonError},
};
use store::{ExecutionId, Record};
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// The most executions cached. At this size the cache is cleared, and long tasks decode their record again.
const MAX_EXECUTIONS: usize = 4_096;
/// The most bytes of the records of cached executions. Above that the cache is cleared too.
const MAX_BYTES: usize = 256 << 20;
/// The most pending writes cached. They are large.
const MAX_WRITTEN: usize = 8;

/// An execution with its cached values.
pub(crate) type Known<W> = (Execution<W>, KnownStep<W>);

struct CachedExecutions<W: Workflow> {
    /// Executions decoded from the body with this hash and length.
    read: HashMap<ExecutionId, (u128, usize, Known<W>)>,
    /// The sum of these lengths.
    bytes: usize,
    /// Pending writes of the body with this hash.
    written: HashMap<ExecutionId, (u128, Known<W>)>,
}

/// Decoded or written executions that have not been used again yet.
pub(crate) struct ExecutionCache<W: Workflow> {
    cached: Mutex<CachedExecutions<W>>,
    seed: u64,
}

impl<W: Workflow> Default for ExecutionCache<W> {
    fn default() -> Self {
        let cached = CachedExecutions { read: HashMap::new(), bytes: 0, written: HashMap::new() };
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

    /// Caches the execution that was decoded from `record`.
    pub(crate) fn insert(&self, record: &Record, known: Known<W>) {
        if record.schema != W::SCHEMA {
            return;
        }
        let hash = self.hash(record);
        let mut cached = self.lock();
        let length = record.body.len();
        if cached.read.len() >= MAX_EXECUTIONS || cached.bytes.saturating_add(length) > MAX_BYTES {
            cached.read.clear();
            cached.bytes = 0;
        }
        let replaced = cached.read.insert(record.id, (hash, length, known));
        let freed = replaced.map_or(0, |(_, length, _)| length);
        cached.bytes = cached.bytes.saturating_sub(freed).saturating_add(length);
    }

    /// Caches a pending write of the body of `next`.
    pub(super) fn insert_written(&self, next: &Record, known: Known<W>) {
        let hash = self.hash(next);
        let mut cached = self.lock();
        if cached.written.len() >= MAX_WRITTEN {
            cached.written.clear();
        }
        cached.written.insert(next.id, (hash, known));
    }

    /// Removes and returns the execution with the body of this record.
    pub(crate) fn take(&self, record: &Record) -> Option<Known<W>> {
        if record.schema != W::SCHEMA {
            return None;
        }
        let mut cached = self.lock();
        if !cached.read.contains_key(&record.id) && !cached.written.contains_key(&record.id) {
            return None;
        }
        let hash = self.hash(record);
        if let Some((of, length, known)) = cached.read.remove(&record.id) {
            cached.bytes = cached.bytes.saturating_sub(length);
            if of == hash {
                return Some(known);
            }
        }
        if cached.written.get(&record.id).is_none_or(|(of, _)| *of != hash) {
            return None;
        }
        cached.written.remove(&record.id).map(|(_, known)| known)
    }
}
