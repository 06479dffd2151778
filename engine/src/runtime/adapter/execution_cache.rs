//! A cache of decoded executions, between a task and the event of its result: a step reads one record twice and
//! decodes it once.
//!
//! The same body always decodes to the same execution, so an entry stays valid for its bytes. Only executions that
//! were read are cached, never ones that are about to be written: a field that is not stored must not survive.

use crate::{Execution, Workflow};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use store::{ExecutionId, Record};

/// The most executions cached. At this size the cache is cleared, and long tasks decode their record again.
const MAX_EXECUTIONS: usize = 4_096;

/// Bodies and their decoded executions.
type CachedExecutions<W> = HashMap<ExecutionId, (Vec<u8>, Execution<W>)>;

/// Decoded executions that have not been used again yet.
pub(crate) struct ExecutionCache<W: Workflow>(Mutex<CachedExecutions<W>>);

impl<W: Workflow> Default for ExecutionCache<W> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<W: Workflow> ExecutionCache<W> {
    fn lock(&self) -> MutexGuard<'_, CachedExecutions<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn insert(&self, record: &Record, execution: Execution<W>) {
        if record.schema != W::SCHEMA {
            return;
        }
        let mut kept = self.lock();
        if kept.len() >= MAX_EXECUTIONS {
            kept.clear();
        }
        kept.insert(record.id, (record.body.clone(), execution));
    }

    /// Removes and returns the execution that was decoded from this body.
    pub(crate) fn take(&self, record: &Record) -> Option<Execution<W>> {
        let (body, execution) = self.lock().remove(&record.id)?;
        (record.schema == W::SCHEMA && body == record.body).then_some(execution)
    }
}
