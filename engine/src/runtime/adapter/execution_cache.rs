//! Executions as they were decoded or written last, for the next event: a step looks at one record twice and decodes it once, and a large
//! execution is not decoded again for each result of its slots.
//!
//! A record's body decodes to the same execution always, so what was decoded of a revision stays true for it. What is about to be
//! written is kept beside its bytes, and stands for a record only if that has the very same bytes: whether it was committed, and by
//! whom, does not matter.

use crate::{Execution, Workflow, core::known_step::KnownStep};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use store::{ExecutionId, Record, Revision};

/// When so many are kept, all are forgotten: work that takes long decodes its record again.
const MAX_EXECUTIONS: usize = 4_096;
/// The same of those about to be written, which are large.
const MAX_WRITTEN: usize = 8;

/// An execution, with what is known of its step.
pub(super) type Known<W> = (Execution<W>, KnownStep<W>);

struct CachedExecutions<W: Workflow> {
    /// Decoded from the record of this revision.
    read: HashMap<ExecutionId, (Revision, usize, Known<W>)>,
    /// About to be written as these bytes.
    written: HashMap<ExecutionId, (Vec<u8>, Known<W>)>,
}

/// What was decoded or written and not asked for again yet.
pub(crate) struct ExecutionCache<W: Workflow>(Mutex<CachedExecutions<W>>);

impl<W: Workflow> Default for ExecutionCache<W> {
    fn default() -> Self {
        Self(Mutex::new(CachedExecutions { read: HashMap::new(), written: HashMap::new() }))
    }
}

impl<W: Workflow> ExecutionCache<W> {
    fn lock(&self) -> MutexGuard<'_, CachedExecutions<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what `record` was decoded to.
    pub(super) fn insert(&self, record: &Record, known: Known<W>) {
        if record.schema != W::SCHEMA {
            return;
        }
        let mut cached = self.lock();
        if cached.read.len() >= MAX_EXECUTIONS {
            cached.read.clear();
        }
        cached.read.insert(record.id, (record.revision, record.body.len(), known));
    }

    /// Keeps what is about to be written as the body of `next`.
    pub(super) fn insert_written(&self, next: &Record, known: Known<W>) {
        let mut cached = self.lock();
        if cached.written.len() >= MAX_WRITTEN {
            cached.written.clear();
        }
        cached.written.insert(next.id, (next.body.clone(), known));
    }

    /// The execution of this very record, if it is known; it is not kept any longer.
    pub(super) fn take(&self, record: &Record) -> Option<Known<W>> {
        if record.schema != W::SCHEMA {
            return None;
        }
        let mut cached = self.lock();
        if let Some((revision, length, known)) = cached.read.remove(&record.id)
            && revision == record.revision
            && length == record.body.len()
        {
            return Some(known);
        }
        let (body, _) = cached.written.get(&record.id)?;
        if *body != record.body {
            return None;
        }
        cached.written.remove(&record.id).map(|(_, known)| known)
    }
}
