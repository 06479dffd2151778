//! Decisions on documents: fetches what a decision asks for, decides again, and commits on what was read.
//!
//! Called by the worker for ledger actions, and by callers outside of executions through [`Engine::ledger`]. Invariant:
//! a decision is committed only if every document that it read is unchanged.

use super::commit::MOST_TRIES;
use crate::{
    ActionError, Engine, Entity, Error, Stopwatch, Undecided, View, documents::audit_context,
    model::documents::document_cache::Parsed,
};
use std::{collections::BTreeMap, sync::Arc};
use store::{Commit, Document, Put, Read, Store, Task, Timestamp};

/// A decision, and everything it rests on. A refusal rests on what was read just as a consent does: documents are fetched
/// one after the other, so either may come from a mixture of before and after somebody else's commit, and holds only if
/// every read still stands when it is committed.
#[derive(Debug)]
pub struct Decided<T> {
    /// What was decided.
    pub result: Result<T, ActionError>,
    /// What it rests on.
    pub reads: Vec<Read>,
    /// What it writes; nothing when it failed.
    pub puts: Vec<Put>,
    /// What it asks of executions, as tasks for the same commit; nothing when it failed.
    pub tasks: Vec<Task>,
}

/// Reaches a decision on the documents of `store`, fetching those that `attempt` asks for until it has them all.
///
/// # Errors
/// The store's; the decision's own failure is in the [`Decided`].
pub async fn decide<T>(
    store: &dyn Store,
    now: Timestamp,
    attempt: impl FnMut(&mut View) -> Result<T, Undecided>,
) -> Result<Decided<T>, store::Error> {
    decide_cached(&Parsed::default(), store, now, attempt).await
}

/// The same, with what was `parsed` of this store before.
pub(crate) async fn decide_cached<T>(
    parsed: &Parsed,
    store: &dyn Store,
    now: Timestamp,
    mut attempt: impl FnMut(&mut View) -> Result<T, Undecided>,
) -> Result<Decided<T>, store::Error> {
    let mut known = BTreeMap::new();
    loop {
        let mut view = View::with_cache(now, std::mem::take(&mut known), parsed);
        let result = match attempt(&mut view) {
            Ok(output) => Ok(output),
            Err(Undecided::Failed(error)) => Err(error),
            Err(Undecided::Needs(keys)) => {
                known = view.into_known();
                for key in keys {
                    let found = store.document(&key).await?;
                    known.insert(key, found);
                }
                continue;
            }
        };
        let tasks = view.take_tasks();
        let (reads, puts) = view.into_changes();
        return Ok(match result {
            Ok(output) => Decided { result: Ok(output), reads, puts, tasks },
            Err(error) => Decided { result: Err(error), reads, puts: Vec::new(), tasks: Vec::new() },
        });
    }
}

/// Whether every one of `reads` is still so.
///
/// # Errors
/// The store's.
pub(crate) async fn are_unchanged(store: &dyn Store, reads: &[Read]) -> Result<bool, store::Error> {
    for read in reads {
        let found = store.document(&read.key).await?;
        if found.map(|document| document.version) != read.version {
            return Ok(false);
        }
    }
    Ok(true)
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// What `document` says; the next who asks for a large one, or decides on it, need not parse it again.
    ///
    /// # Errors
    /// When it is no `T`.
    pub fn parsed<T: Entity>(&self, document: &Document) -> Result<Arc<T>, serde_json::Error> {
        if let Some(value) = self.inner.document_cache.get::<T>(document) {
            return Ok(value);
        }
        let value = serde_json::from_slice(&document.body).map(Arc::new)?;
        self.inner.document_cache.keep(document, &value);
        Ok(value)
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Decides on documents as a ledger action would, again whenever somebody else's commit comes between; commits what it
    /// writes, and what it asks of executions, if `keep` and what it is bound to is so ([`only_if`](crate::only_if())), else shows
    /// what it would answer.
    ///
    /// # Errors
    /// [`Error::Undecided`] when the decision is no; [`store::Error::Conflict`] when others keep writing.
    pub async fn ledger<T>(
        &self,
        keep: bool,
        mut attempt: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, Error> {
        let conditions = if keep { crate::documents::preconditions::current() } else { Vec::new() };
        let mut attempt = |view: &mut View| {
            conditions.iter().try_for_each(|condition| condition.holds(view))?;
            attempt(view)
        };
        for _ in 0..MOST_TRIES {
            let store = &*self.inner.store;
            let now = self.inner.clock.now();
            let Decided { result, reads, puts, tasks } =
                decide_cached(&self.inner.document_cache, store, now, &mut attempt).await?;
            if !keep || (puts.is_empty() && tasks.is_empty()) {
                if are_unchanged(store, &reads).await? {
                    return result.map_err(Error::Undecided);
                }
                continue;
            }
            let journal = audit_context::entry(&puts, tasks.len(), now).into_iter().collect();
            let commit = Commit { reads, documents: puts, schedule: tasks, journal, ..Commit::default() };
            let watch = Stopwatch::start();
            match store.commit(commit).await {
                Ok(_) => {
                    self.inner.metrics.committed(watch.elapsed());
                    self.inner.wakeup.notify();
                    return result.map_err(Error::Undecided);
                }
                Err(store::Error::Conflict { .. }) => self.inner.metrics.conflict(),
                Err(error) => return Err(error.into()),
            }
        }
        Err(store::Error::Conflict { what: "the ledger".into() }.into())
    }
}
