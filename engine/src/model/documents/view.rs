//! The documents that a ledger action reads, each with its version.
//!
//! A view holds the documents fetched so far. For a missing document it returns [`Undecided::Needs`]; the worker
//! fetches it and decides again from the start. So `decide` stays pure and has no access to the store. Every key
//! read, present or absent, becomes a condition of the commit.

use super::document_cache::DocumentCache;
use crate::ActionError;
use serde::{Serialize, de::DeserializeOwned};
use std::{
    any::Any,
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};
use store::{Document, Key, Put, Read, Task, Timestamp};

/// How long documents of a kind are retained. Their removal skips documents in use and those of a tenant under a
/// legal hold.
#[derive(Debug)]
pub enum Retention<T> {
    /// As long as the object that it describes, such as a tenant, a node or a user. The number of these objects bounds the number of documents.
    WithSubject,
    /// Forever, because it is evidence.
    Forever,
    /// Until this moment; `None` while the moment is unknown.
    Until(fn(&T) -> Option<Timestamp>),
    /// Until this moment. Unreadable documents are removed too, because nothing depends on them except speed or
    /// access.
    Scratch(fn(&T) -> Option<Timestamp>),
}

impl<T> Retention<T> {
    /// Returns true if the retention of a document is over at `now`.
    #[must_use]
    pub fn is_over(&self, of: &T, now: Timestamp) -> bool {
        match self {
            Self::WithSubject | Self::Forever => false,
            Self::Until(until) | Self::Scratch(until) => until(of).is_some_and(|until| until <= now),
        }
    }

    /// Returns true if documents of the kind are removed by age.
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
    /// The collection of its documents.
    const COLLECTION: &'static str;
    /// How long its documents are retained.
    const RETENTION: Retention<Self>;
    /// True if most decisions that read such a document also write it. Those decisions then queue in order of arrival
    /// and are committed together, instead of conflicting with each other.
    const QUEUED: bool = false;

    /// Returns the id within the collection.
    fn id(&self) -> String;
}

/// Why there is no decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undecided {
    /// These documents must be fetched before the next try.
    Needs(Vec<Key>),
    /// The decision failed, permanently or for now.
    Failed(ActionError),
}

impl From<ActionError> for Undecided {
    fn from(error: ActionError) -> Self {
        Self::Failed(error)
    }
}

/// A decision's write of a document.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    /// The new body; `None` deletes the document.
    pub(crate) body: Option<Vec<u8>>,
    /// The value that the body encodes, if it is shared.
    value: Option<Arc<dyn Any + Send + Sync>>,
}

/// The writes of decisions, by document.
pub(crate) type Writes = BTreeMap<Key, Written>;

/// Documents, with the writes of the decision applied to them.
#[derive(Debug, Default)]
pub struct View {
    now: Timestamp,
    fetched: BTreeMap<Key, Option<Document>>,
    reads: BTreeMap<Key, Option<store::Sequence>>,
    /// The writes of earlier decisions in the same commit.
    earlier: Writes,
    writes: Writes,
    tasks: Vec<Task>,
    parsed: DocumentCache,
    queue: OnceLock<Key>,
}

/// The reads and writes of a decision.
#[derive(Debug)]
pub(crate) struct Changes {
    pub(crate) known: BTreeMap<Key, Option<Document>>,
    pub(crate) earlier: Writes,
    pub(crate) reads: BTreeMap<Key, Option<store::Sequence>>,
    pub(crate) writes: Writes,
    pub(crate) tasks: Vec<Task>,
}

impl View {
    /// Creates a view at `now` of the documents `known`, which include absent ones.
    #[must_use]
    pub fn new(now: Timestamp, known: BTreeMap<Key, Option<Document>>) -> Self {
        Self { now, fetched: known, ..Self::default() }
    }

    /// Creates a view that uses the parsed values of this store in `cached`.
    pub(crate) fn with_cache(
        now: Timestamp,
        known: BTreeMap<Key, Option<Document>>,
        cached: &DocumentCache,
    ) -> Self {
        Self { parsed: cached.clone(), ..Self::new(now, known) }
    }

    /// Applies the writes of `earlier` decisions in the same commit.
    pub(crate) fn after(mut self, earlier: Writes) -> Self {
        self.earlier = earlier;
        self
    }

    /// Returns the fetched documents.
    pub(crate) fn into_known(self) -> BTreeMap<Key, Option<Document>> {
        self.fetched
    }

    /// Returns the parts of the view.
    pub(crate) fn into_parts(self) -> Changes {
        let Self { fetched: known, earlier, reads, writes, tasks, .. } = self;
        Changes { known, earlier, reads, writes, tasks }
    }

    /// Returns the first requested document whose decisions queue.
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

    /// Returns the time of the decision.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns the document `id`, or `None` if it does not exist.
    ///
    /// # Errors
    /// Returns [`Undecided::Needs`] if it has not been fetched, and a permanent `ledger.unreadable` if it is not a
    /// `T`.
    pub fn get<T: Entity>(&mut self, id: &str) -> Result<Option<T>, Undecided> {
        Ok(self.get_shared(id)?.map(Arc::unwrap_or_clone))
    }

    /// Returns the document without copying it: for large documents that most decisions only read.
    ///
    /// # Errors
    /// Same as [`View::get`].
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

    /// Returns the document `id`, and fails if it does not exist.
    ///
    /// # Errors
    /// Same as [`View::get`], and a permanent `ledger.missing` if the document does not exist.
    pub fn require<T: Entity>(&mut self, id: &str) -> Result<T, Undecided> {
        let missing =
            || ActionError::permanent("ledger.missing", format!("there is no {}/{id}", T::COLLECTION));
        Ok(self.get(id)?.ok_or_else(missing)?)
    }

    /// Returns the version of the document `id`, which changes with every write, or `None` if there is no such
    /// document.
    ///
    /// # Errors
    /// Returns [`Undecided::Needs`] if it has not been fetched.
    pub fn version<T: Entity>(&mut self, id: &str) -> Result<Option<store::Sequence>, Undecided> {
        let key = Key::new(T::COLLECTION, id);
        self.note_queue::<T>(&key);
        self.expect(&key)?;
        Ok(match self.earlier.get(&key) {
            // The version is still unknown; no caller can have read it.
            Some(written) => written.body.is_some().then_some(store::Sequence(u64::MAX)),
            None => self.fetched.get(&key).and_then(Option::as_ref).map(|document| document.version),
        })
    }

    /// Checks that all these documents have been fetched, and requests the missing ones together.
    ///
    /// # Errors
    /// Returns [`Undecided::Needs`] with every missing key.
    pub fn prefetch<T: Entity>(
        &self,
        ids: impl IntoIterator<Item = impl Into<String>>,
    ) -> Result<(), Undecided> {
        let keys =
            ids.into_iter().map(|id| Key::new(T::COLLECTION, id)).inspect(|key| self.note_queue::<T>(key));
        let missing: Vec<_> = keys.filter(|key| !self.fetched.contains_key(key)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Undecided::Needs(missing)) }
    }

    /// Creates or replaces a document.
    ///
    /// # Errors
    /// Returns [`Undecided::Needs`] if the document has not been fetched: a write is conditional on the version it
    /// replaces.
    pub fn put<T: Entity>(&mut self, entity: &T) -> Result<(), Undecided> {
        let key = Key::new(T::COLLECTION, entity.id());
        self.note_queue::<T>(&key);
        self.expect(&key)?;
        let body = serde_json::to_vec(entity).map_err(|e| ActionError::permanent("ledger.encode", e))?;
        self.writes.insert(key, Written { body: Some(body), value: None });
        Ok(())
    }

    /// Writes a large document that most decisions change. The next decision in this process gets this value without
    /// parsing it again, so it must equal its parsed form; debug builds check that.
    ///
    /// # Errors
    /// Same as [`View::put`].
    pub fn put_shared<T: Entity + PartialEq>(&mut self, entity: &Arc<T>) -> Result<(), Undecided> {
        self.put::<T>(entity)?;
        let key = Key::new(T::COLLECTION, entity.id());
        if let Some(Written { body: Some(body), value }) = self.writes.get_mut(&key) {
            debug_assert!(
                serde_json::from_slice::<T>(body).is_ok_and(|read| read == **entity),
                "{key} is read back with the same value"
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
    /// Same as [`View::put`].
    pub fn delete<T: Entity>(&mut self, id: &str) -> Result<(), Undecided> {
        let key = Key::new(T::COLLECTION, id);
        self.note_queue::<T>(&key);
        if self.expect(&key)? || self.writes.contains_key(&key) || self.earlier.contains_key(&key) {
            self.writes.insert(key, Written { body: None, value: None });
        }
        Ok(())
    }

    /// Returns true if the document exists. Makes its version a condition of the commit.
    fn expect(&mut self, key: &Key) -> Result<bool, Undecided> {
        let Some(found) = self.fetched.get(key) else { return Err(Undecided::Needs(vec![key.clone()])) };
        self.reads.insert(key.clone(), found.as_ref().map(|document| document.version));
        Ok(found.is_some())
    }

    /// Returns the conditions and the writes of the decision.
    #[must_use]
    pub fn into_changes(self) -> (Vec<Read>, Vec<Put>) {
        let reads = self.reads.into_iter().map(|(key, version)| Read { key, version }).collect();
        (reads, puts(self.writes))
    }
}

/// Converts the writes to parts of a commit.
pub(crate) fn puts(writes: Writes) -> Vec<Put> {
    writes.into_iter().map(|(key, written)| Put { key, body: written.body }).collect()
}
