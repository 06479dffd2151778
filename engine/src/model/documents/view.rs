//! What a ledger action sees: documents, each remembered with its version.
//!
//! A view holds what has been fetched so far. Asked for a document it lacks, it says so ([`Undecided::Needs`]), the
//! shell fetches it and decides again from the start; so `decide` stays pure and knows no store. Every key read,
//! present or absent, becomes a condition of the commit.

use super::document_cache::DocumentCache;
use crate::ActionError;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};
use store::{Document, Key, Put, Read, Task, Timestamp};

/// How long documents of a kind are kept. Whoever removes them leaves those of a tenant under a legal hold, and those that are in use.
#[derive(Debug)]
pub enum Retention<T> {
    /// As long as the tenant, node, user or the like that it describes: there are only as many as things that they describe.
    WithSubject,
    /// For ever: it is evidence.
    Forever,
    /// Until this moment; `None` while that is not known.
    Until(fn(&T) -> Option<Timestamp>),
    /// The same. It only saves work or opens a door, so one that cannot be read is removed too.
    Scratch(fn(&T) -> Option<Timestamp>),
}

impl<T> Retention<T> {
    /// Returns true if a document is kept no longer at `now`.
    #[must_use]
    pub fn is_over(&self, of: &T, now: Timestamp) -> bool {
        match self {
            Self::WithSubject | Self::Forever => false,
            Self::Until(until) | Self::Scratch(until) => until(of).is_some_and(|until| until <= now),
        }
    }

    /// Returns true if documents of the kind are removed by age at all.
    #[must_use]
    pub fn is_limited(&self) -> bool {
        match self {
            Self::WithSubject | Self::Forever => false,
            Self::Until(_) | Self::Scratch(_) => true,
        }
    }
}

/// A kind of document.
pub trait Entity: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Where its documents lie.
    const COLLECTION: &'static str;
    /// How long its documents are kept.
    const RETENTION: Retention<Self>;
    /// Whether most decisions that read such a document also write it. Decisions on it then queue in the order of arrival, and several
    /// are committed together, instead of one and the others again.
    const QUEUED: bool = false;

    /// Names this one within the collection.
    fn id(&self) -> String;
}

/// Why a decision was not reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// These documents must be fetched first; decide again when they have been.
    Needs(Vec<Key>),
    /// The decision is no, or not now.
    Failed(ActionError),
}

impl From<ActionError> for Undecided {
    fn from(error: ActionError) -> Self {
        Self::Failed(error)
    }
}

/// What a decision writes in place of a document.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The new body; `None` deletes the document.
    pub(crate) body: Option<Vec<u8>>,
    /// The value that the body was made of, where it is shared.
    value: Option<Arc<dyn Any + Send + Sync>>,
}

/// The writes of decisions, by document.
pub(crate) type Writes = BTreeMap<Key, Written>;

/// Documents as they stand, with the writes decided so far on top.
#[derive(Debug, Default)]
pub struct View {
    now: Timestamp,
    fetched: BTreeMap<Key, Option<Document>>,
    reads: BTreeMap<Key, Option<store::Sequence>>,
    /// What earlier decisions of the same commit write.
    earlier: Writes,
    writes: Writes,
    tasks: Vec<Task>,
    parsed: DocumentCache,
    queue: OnceLock<Key>,
}

/// What a decision made of its view.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) known: BTreeMap<Key, Option<Document>>,
    pub(crate) earlier: Writes,
    pub(crate) reads: BTreeMap<Key, Option<store::Sequence>>,
    pub(crate) writes: Writes,
    pub(crate) tasks: Vec<Task>,
}

impl View {
    /// A view at `now` of the documents `known`, absence included.
    #[must_use]
    pub fn new(now: Timestamp, known: BTreeMap<Key, Option<Document>>) -> Self {
        Self { now, fetched: known, ..Self::default() }
    }

    /// The same, with the values that were `cached` of this store before.
    pub(crate) fn with_cache(
        now: Timestamp,
        known: BTreeMap<Key, Option<Document>>,
        cached: &DocumentCache,
    ) -> Self {
        Self { parsed: cached.clone(), ..Self::new(now, known) }
    }

    /// The same, on top of what `earlier` decisions of the same commit write.
    pub(crate) fn after(mut self, earlier: Writes) -> Self {
        self.earlier = earlier;
        self
    }

    /// The documents that were fetched for it.
    pub(crate) fn into_known(self) -> BTreeMap<Key, Option<Document>> {
        self.fetched
    }

    /// Takes the view apart.
    pub(crate) fn into_parts(self) -> Changes {
        let Self { fetched: known, earlier, reads, writes, tasks, .. } = self;
        Changes { known, earlier, reads, writes, tasks }
    }

    /// The first document that was asked for whose decisions queue, if one was.
    pub(crate) fn queue(&self) -> Option<&Key> {
        self.queue.get()
    }

    fn note_queue<T: Entity>(&self, key: &Key) {
        if T::QUEUED {
            self.queue.get_or_init(|| key.clone());
        }
    }

    /// Adds a task to the commit of this decision.
    pub(crate) fn add_task(&mut self, task: Task) {
        self.tasks.push(task);
    }

    /// Takes the tasks for the commit of this decision.
    pub(crate) fn take_tasks(&mut self) -> Vec<Task> {
        std::mem::take(&mut self.tasks)
    }

    /// The moment of the decision.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// The document `id`, or `None` if there is none.
    ///
    /// # Errors
    /// [`Undecided::Needs`] when it has not been fetched; a permanent `ledger.unreadable` when it is not a `T`.
    pub fn get<T: Entity>(&mut self, id: &str) -> Result<Option<T>, Undecided> {
        Ok(self.get_shared(id)?.map(Arc::unwrap_or_clone))
    }

    /// The same, not copied: for large documents that most decisions only read.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn get_shared<T: Entity>(&mut self, id: &str) -> Result<Option<Arc<T>>, Undecided> {
        let key = Key::new(T::COLLECTION, id);
        let parse = |body: &[u8]| -> Result<Arc<T>, ActionError> {
            let unreadable = |e| ActionError::permanent("ledger.unreadable", format!("{key}: {e}"));
            serde_json::from_slice(body).map(Arc::new).map_err(unreadable)
        };
        self.note_queue::<T>(&key);
        if let Some(written) = self.writes.get(&key).or_else(|| self.earlier.get(&key)) {
            let shared = written.value.clone().and_then(|value| value.downcast::<T>().ok());
            return Ok(match shared {
                Some(value) => Some(value),
                None => written.body.as_deref().map(parse).transpose()?,
            });
        }
        let Some(found) = self.fetched.get(&key) else { return Err(Undecided::Needs(vec![key])) };
        self.reads.insert(key.clone(), found.as_ref().map(|document| document.version));
        let Some(document) = found else { return Ok(None) };
        if let Some(value) = self.parsed.get::<T>(document) {
            return Ok(Some(value));
        }
        let value = parse(&document.body)?;
        self.parsed.insert(document, &value);
        Ok(Some(value))
    }

    /// The document `id`, which a decision cannot do without.
    ///
    /// # Errors
    /// As [`View::get`]; a permanent `ledger.missing` when there is none.
    pub fn require<T: Entity>(&mut self, id: &str) -> Result<T, Undecided> {
        let missing =
            || ActionError::permanent("ledger.missing", format!("there is no {}/{id}", T::COLLECTION));
        Ok(self.get(id)?.ok_or_else(missing)?)
    }

    /// The version of the document `id`, which changes whenever it is written; `None` if there is no such document.
    ///
    /// # Errors
    /// [`Undecided::Needs`] when it has not been fetched.
    pub fn version<T: Entity>(&mut self, id: &str) -> Result<Option<store::Sequence>, Undecided> {
        let key = Key::new(T::COLLECTION, id);
        self.note_queue::<T>(&key);
        self.expect(&key)?;
        Ok(match self.earlier.get(&key) {
            // A version that no caller can have read yet.
            Some(written) => written.body.is_some().then_some(store::Sequence(u64::MAX)),
            None => self.fetched.get(&key).and_then(Option::as_ref).map(|document| document.version),
        })
    }

    /// Makes sure that all of these have been fetched, asking for all that have not at once.
    ///
    /// # Errors
    /// [`Undecided::Needs`] with every key that is not at hand.
    pub fn prefetch<T: Entity>(
        &self,
        ids: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), Undecided> {
        let keys =
            ids.into_iter().map(|id| Key::new(T::COLLECTION, id)).inspect(|key| self.note_queue::<T>(key));
        let missing: Vec<_> = keys.filter(|key| !self.fetched.contains_key(key)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Undecided::Needs(missing)) }
    }

    /// Writes a document, new or not.
    ///
    /// # Errors
    /// [`Undecided::Needs`]: a write is conditional on what it replaces, so that must have been fetched.
    pub fn put<T: Entity>(&mut self, entity: &T) -> Result<(), Undecided> {
        let key = Key::new(T::COLLECTION, entity.id());
        self.note_queue::<T>(&key);
        self.expect(&key)?;
        let body = serde_json::to_vec(entity).map_err(|e| ActionError::permanent("ledger.encode", e))?;
        self.writes.insert(key, Written { body: Some(body), value: None });
        Ok(())
    }

    /// The same of a large document that most decisions change: the next decision in this process is given this value again in place of
    /// one that is parsed, so it must be what it is read as, which debug builds prove.
    ///
    /// # Errors
    /// As [`View::put`].
    pub fn put_shared<T: Entity + PartialEq>(&mut self, entity: &Arc<T>) -> Result<(), Undecided> {
        self.put::<T>(entity)?;
        let key = Key::new(T::COLLECTION, entity.id());
        if let Some(Written { body: Some(body), value }) = self.writes.get_mut(&key) {
            debug_assert!(
                serde_json::from_slice::<T>(body).is_ok_and(|read| read == **entity),
                "{key} is read as it was"
            );
            self.parsed.keep_written(&key, body, entity);
            let shared: Arc<dyn Any + Send + Sync> = Arc::<T>::clone(entity);
            *value = Some(shared);
        }
        Ok(())
    }

    /// Deletes a document, if there is one.
    ///
    /// # Errors
    /// As [`View::put`].
    pub fn delete<T: Entity>(&mut self, id: &str) -> Result<(), Undecided> {
        let key = Key::new(T::COLLECTION, id);
        self.note_queue::<T>(&key);
        if self.expect(&key)? || self.writes.contains_key(&key) || self.earlier.contains_key(&key) {
            self.writes.insert(key, Written { body: None, value: None });
        }
        Ok(())
    }

    /// Whether there is such a document; a write of it rests on that.
    fn expect(&mut self, key: &Key) -> Result<bool, Undecided> {
        let Some(found) = self.fetched.get(key) else { return Err(Undecided::Needs(vec![key.clone()])) };
        self.reads.insert(key.clone(), found.as_ref().map(|document| document.version));
        Ok(found.is_some())
    }

    /// What the decision rests on, and what it writes.
    #[must_use]
    pub fn into_changes(self) -> (Vec<Read>, Vec<Put>) {
        let reads = self.reads.into_iter().map(|(key, version)| Read { key, version }).collect();
        (reads, puts(self.writes))
    }
}

/// The writes as parts of a commit.
pub(crate) fn puts(writes: Writes) -> Vec<Put> {
    writes.into_iter().map(|(key, written)| Put { key, body: written.body }).collect()
}
