//! Decisions on documents: fetches the documents that a decision needs, decides again, and commits.
//!
//! Called by the worker for ledger actions, and by callers outside of executions through [`Engine::transact`].
//! Invariant: a decision is committed only if every document that it read is unchanged.

use super::decisions::{
    queues::{Place, name_of},
    reads::{are_unchanged, fetch},
};
use crate::{
    ActionError, Engine, Entity, Error, Stopwatch, Undecided, View, documents::audit_context,
    model::documents::document_cache::DocumentCache,
};
use std::{collections::BTreeMap, sync::Arc};
use store::{Commit, Document, Key, Put, Read, Store, Task, Timestamp};

/// A decision with its reads and writes. Refusals have reads too: documents are fetched one after the other, so any
/// decision may see a mixture of before and after another commit. It is valid only if every read is unchanged at its
/// commit.
#[derive(Debug)]
pub struct Decided<T> {
    /// The result.
    pub result: Result<T, ActionError>,
    /// The reads.
    pub reads: Vec<Read>,
    /// The writes; empty if the decision failed.
    pub puts: Vec<Put>,
    /// The messages to executions, as tasks of the same commit; empty if the decision failed.
    pub tasks: Vec<Task>,
}

/// Decides on the documents of `store`. Fetches documents until `attempt` has all it needs.
///
/// # Errors
/// Returns the store's error. A failure of the decision itself is in [`Decided`].
pub async fn decide<T>(
    store: &dyn Store,
    now: Timestamp,
    attempt: impl FnMut(&mut View) -> Result<T, Undecided>,
) -> Result<Decided<T>, store::Error> {
    decide_cached(&DocumentCache::default(), store, now, attempt).await
}

/// Decides with the values `parsed` before.
pub(crate) async fn decide_cached<T>(
    parsed: &DocumentCache,
    store: &dyn Store,
    now: Timestamp,
    mut attempt: impl FnMut(&mut View) -> Result<T, Undecided>,
) -> Result<Decided<T>, store::Error> {
    let mut known = BTreeMap::new();
    loop {
        let mut view = View::with_cache(now, std::mem::take(&mut known), parsed);
        match attempt(&mut view) {
            Ok(output) => return Ok(Decided::of(view, Ok(output))),
            Err(Undecided::Failed(error)) => return Ok(Decided::of(view, Err(error))),
            Err(Undecided::Needs(keys)) => {
                known = view.into_known();
                known.extend(fetch(store, keys).await?);
            }
        }
    }
}

impl<T> Decided<T> {
    fn of(mut view: View, result: Result<T, ActionError>) -> Self {
        let tasks = view.take_tasks();
        let (reads, puts) = view.into_changes();
        match result {
            Ok(output) => Self { result: Ok(output), reads, puts, tasks },
            Err(error) => Self { result: Err(error), reads, puts: Vec::new(), tasks: Vec::new() },
        }
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Parses `document`. Large ones are cached for later reads and decisions.
    ///
    /// # Errors
    /// Returns an error if it is not a `T`.
    pub fn parse_document<T: Entity>(&self, document: &Document) -> Result<Arc<T>, serde_json::Error> {
        if let Some(value) = self.inner.document_cache.get::<T>(document) {
            return Ok(value);
        }
        let value = serde_json::from_slice(&document.body).map(Arc::new)?;
        self.inner.document_cache.insert(document, &value);
        Ok(value)
    }
}

/// The result of a decision outside of any queue.
enum Alone<T> {
    /// The decision is valid.
    Decided(Result<T, ActionError>),
    /// A read has changed.
    Changed,
    /// It must queue for the named document.
    Queue(String),
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Decides on documents as a ledger action does. If `keep` is true, commits the writes and messages, provided
    /// that the preconditions hold ([`with_precondition`](crate::with_precondition())). Otherwise returns the result
    /// as a dry run.
    ///
    /// Decisions on a contended document queue in order of arrival, and several are committed together. A decision is
    /// repeated after a conflict with another commit, for at most [`Options::patience`](crate::Options::patience).
    ///
    /// # Errors
    /// Returns [`Error::Undecided`] if the decision fails; [`Error::Crowded`] if it had no turn in time, or other
    /// servers keep writing.
    pub async fn transact<T>(
        &self,
        keep: bool,
        mut attempt: impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<T, Error> {
        let conditions = if keep { crate::documents::preconditions::current() } else { Vec::new() };
        let mut attempt = |view: &mut View| {
            conditions.iter().try_for_each(|condition| condition.check(view))?;
            attempt(view)
        };
        let (waited, patience) = (Stopwatch::start(), self.inner.options.patience);
        let mut place: Option<Place> = None;
        loop {
            if let Some(place) = &mut place {
                let left = patience.saturating_sub(waited.elapsed());
                if let Some(result) = self.decide_in_turn(place, left, &mut attempt).await? {
                    return result.map_err(Error::Undecided);
                }
            } else {
                match self.decide_alone(keep, &mut attempt).await? {
                    Alone::Decided(result) => return result.map_err(Error::Undecided),
                    Alone::Changed => {}
                    Alone::Queue(what) => place = Some(self.inner.queues.join(what)),
                }
            }
            if waited.elapsed() > patience {
                let what = place.map_or_else(|| "the documents".into(), |place| place.what);
                return Err(Error::Crowded { what });
            }
        }
    }

    /// Decides without a queue, unless callers queue for a document that it reads.
    async fn decide_alone<T>(
        &self,
        keep: bool,
        attempt: &mut impl FnMut(&mut View) -> Result<T, Undecided>,
    ) -> Result<Alone<T>, Error> {
        let store = &*self.inner.store;
        let now = self.inner.clock.now();
        let mut queue: Option<Key> = None;
        let decided = decide_cached(&self.inner.document_cache, store, now, |view| {
            let result = attempt(view).map(Some);
            queue = view.queue().filter(|_| keep).cloned();
            // Documents are not fetched for a decision that is about to queue.
            if queue.is_some() { Ok(None) } else { result }
        });
        let Decided { result, reads, puts, tasks } = decided.await?;
        if let Some(key) = queue {
            return Ok(Alone::Queue(name_of(&key)));
        }
        let Some(result) = result.transpose() else { return Ok(Alone::Changed) };
        if !keep || (puts.is_empty() && tasks.is_empty()) {
            let stands = are_unchanged(store, &reads).await?;
            return Ok(if stands { Alone::Decided(result) } else { Alone::Changed });
        }
        if let Some(what) = self.inner.queues.busy(reads.iter().map(|read| &read.key)) {
            return Ok(Alone::Queue(what));
        }
        let journal = audit_context::entry(&puts, tasks.len(), now).into_iter().collect();
        let commit = Commit { reads, documents: puts, schedule: tasks, journal, ..Commit::default() };
        let watch = Stopwatch::start();
        match store.commit(commit).await {
            Ok(_) => {
                self.inner.metrics.committed(watch.elapsed());
                self.inner.wakeup.notify();
                Ok(Alone::Decided(result))
            }
            Err(store::Error::Conflict { what }) => {
                self.inner.metrics.conflict();
                Ok(Alone::Queue(what))
            }
            Err(error) => Err(error.into()),
        }
    }
}
