//! Executions as they were decoded for a task, for the event that its work leads to: a step looks at one record twice
//! and decodes it once.
//!
//! A record's body decodes to the same execution always, so what was decoded of these bytes stays true for them. Only
//! what was read is kept, never what is about to be written: what does not survive being stored is seen as it was
//! stored.

use crate::{Execution, Workflow};
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};
use store::{ExecutionId, Record};

/// When so many are kept, all are forgotten: work that takes long decodes its record again.
const MAX_EXECUTIONS: usize = 4_096;

/// Bodies, and what each was decoded to.
type CachedExecutions<W> = HashMap<ExecutionId, (Vec<u8>, Execution<W>)>;

/// What was decoded and not asked for again yet.
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

    /// What this very body was decoded to, if that is known; it is not kept any longer.
    pub(crate) fn take(&self, record: &Record) -> Option<Execution<W>> {
        let (body, execution) = self.lock().remove(&record.id)?;
        (record.schema == W::SCHEMA && body == record.body).then_some(execution)
    }
}
