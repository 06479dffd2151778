//! What a ledger action sees: documents, each remembered with its version.
//!
//! A view holds what has been fetched so far. Asked for a document it lacks, it says so ([`Undecided::Needs`]), the
//! shell fetches it and decides again from the start; so `decide` stays pure and knows no store. Every key read, present
//! or absent, becomes a condition of the commit.

use crate::{
    ActionError, Workflow,
    model::{
        action::encode,
        document_cache::Parsed,
        message::{Message, Start},
    },
};
use serde::{Serialize, de::DeserializeOwned};
use std::{collections::BTreeMap, sync::Arc};
use store::{Document, ExecutionId, Key, Put, Read, Store, Task, Timestamp};

/// A kind of document.
pub trait Entity: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Where its documents lie.
    const COLLECTION: &'static str;

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

/// Documents as they stand, with the writes decided so far on top.
#[derive(Debug, Default)]
pub struct View {
    now: Timestamp,
    known: BTreeMap<Key, Option<Document>>,
    reads: BTreeMap<Key, Option<store::Sequence>>,
    writes: BTreeMap<Key, Option<Vec<u8>>>,
    messages: Vec<(ExecutionId, Message)>,
    parsed: Parsed,
}

impl View {
    /// A view at `now` of the documents `known`, absence included.
    #[must_use]
    pub fn new(now: Timestamp, known: BTreeMap<Key, Option<Document>>) -> Self {
        Self { now, known, ..Self::default() }
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
        Ok(self.shared(id)?.map(Arc::unwrap_or_clone))
    }

    /// The same, not copied: for large documents that most decisions only read.
    ///
    /// # Errors
    /// As [`View::get`].
    pub fn shared<T: Entity>(&mut self, id: &str) -> Result<Option<Arc<T>>, Undecided> {
        let key = Key::new(T::COLLECTION, id);
        let parse = |body: &[u8]| -> Result<Arc<T>, ActionError> {
            let unreadable = |e| ActionError::permanent("ledger.unreadable", format!("{key}: {e}"));
            serde_json::from_slice(body).map(Arc::new).map_err(unreadable)
        };
        if let Some(written) = self.writes.get(&key) {
            return Ok(written.as_deref().map(parse).transpose()?);
        }
        let Some(found) = self.known.get(&key) else { return Err(Undecided::Needs(vec![key])) };
        self.reads.insert(key.clone(), found.as_ref().map(|document| document.version));
        let Some(document) = found else { return Ok(None) };
        if let Some(value) = self.parsed.get::<T>(document) {
            return Ok(Some(value));
        }
        let value = parse(&document.body)?;
        self.parsed.keep(document, &value);
        Ok(Some(value))
    }

    /// The document `id`, which a decision cannot do without.
    ///
    /// # Errors
    /// As [`View::get`]; a permanent `ledger.missing` when there is none.
    pub fn need<T: Entity>(&mut self, id: &str) -> Result<T, Undecided> {
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
        self.expect(&key)?;
        Ok(self.known.get(&key).and_then(Option::as_ref).map(|document| document.version))
    }

    /// Makes sure that all of these have been fetched, asking for all that have not at once.
    ///
    /// # Errors
    /// [`Undecided::Needs`] with every key that is not at hand.
    pub fn want<T: Entity>(&self, ids: impl IntoIterator<Item = impl Into<String>>) -> Result<(), Undecided> {
        let keys = ids.into_iter().map(|id| Key::new(T::COLLECTION, id));
        let missing: Vec<_> = keys.filter(|key| !self.known.contains_key(key)).collect();
        if missing.is_empty() { Ok(()) } else { Err(Undecided::Needs(missing)) }
    }

    /// Writes a document, new or not.
    ///
    /// # Errors
    /// [`Undecided::Needs`]: a write is conditional on what it replaces, so that must have been fetched.
    pub fn put<T: Entity>(&mut self, entity: &T) -> Result<(), Undecided> {
        let key = Key::new(T::COLLECTION, entity.id());
        self.expect(&key)?;
        let body = serde_json::to_vec(entity).map_err(|e| ActionError::permanent("ledger.encode", e))?;
        self.writes.insert(key, Some(body));
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
        if let Some(Some(body)) = self.writes.get(&key) {
            debug_assert!(
                serde_json::from_slice::<T>(body).is_ok_and(|read| read == **entity),
                "{key} is read as it was"
            );
            self.parsed.keep_written(&key, body, entity);
        }
        Ok(())
    }

    /// Deletes a document, if there is one.
    ///
    /// # Errors
    /// As [`View::put`].
    pub fn delete<T: Entity>(&mut self, id: &str) -> Result<(), Undecided> {
        let key = Key::new(T::COLLECTION, id);
        if self.expect(&key)? || self.writes.contains_key(&key) {
            self.writes.insert(key, None);
        }
        Ok(())
    }

    /// Tells the execution `to` that something it waits for, or will, has happened: once this decision is committed, and not
    /// without it. An execution that has finished, or never was, needs no telling.
    pub fn signal(&mut self, to: ExecutionId, name: impl Into<String>) {
        self.messages.push((to, Message::Signal(name.into())));
    }

    /// Asks something of the execution `to`, once this decision is committed, and not without it.
    pub(crate) fn ask(&mut self, to: ExecutionId, message: Message) {
        self.messages.push((to, message));
    }

    /// Starts an execution of `data`, asked for by `by`, once this decision is committed, and not without it. The same `key`
    /// starts nothing again; while another execution holds its guard, it waits for that one.
    ///
    /// # Errors
    /// A permanent `engine.encode` when `data` cannot be stored.
    pub fn start<W: Workflow>(
        &mut self,
        data: &W,
        by: impl Into<String>,
        key: &str,
    ) -> Result<(), Undecided> {
        let start = Start {
            workflow: W::NAME.into(),
            schema: W::SCHEMA,
            data: encode(data)?,
            by: by.into(),
            key: key.into(),
        };
        self.messages.push((Message::nobody(key), Message::Start(Box::new(start))));
        Ok(())
    }

    /// Whether there is such a document; a write of it rests on that.
    fn expect(&mut self, key: &Key) -> Result<bool, Undecided> {
        let Some(found) = self.known.get(key) else { return Err(Undecided::Needs(vec![key.clone()])) };
        self.reads.insert(key.clone(), found.as_ref().map(|document| document.version));
        Ok(found.is_some())
    }

    /// What the decision rests on, and what it writes.
    #[must_use]
    pub fn into_changes(self) -> (Vec<Read>, Vec<Put>) {
        let reads = self.reads.into_iter().map(|(key, version)| Read { key, version }).collect();
        let puts = self.writes.into_iter().map(|(key, body)| Put { key, body }).collect();
        (reads, puts)
    }
}

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
    decide_knowing(&Parsed::default(), store, now, attempt).await
}

/// The same, with what was `parsed` of this store before.
pub(crate) async fn decide_knowing<T>(
    parsed: &Parsed,
    store: &dyn Store,
    now: Timestamp,
    mut attempt: impl FnMut(&mut View) -> Result<T, Undecided>,
) -> Result<Decided<T>, store::Error> {
    let mut known = BTreeMap::new();
    loop {
        let mut view = View { parsed: parsed.clone(), ..View::new(now, std::mem::take(&mut known)) };
        let result = match attempt(&mut view) {
            Ok(output) => Ok(output),
            Err(Undecided::Failed(error)) => Err(error),
            Err(Undecided::Needs(keys)) => {
                known = view.known;
                for key in keys {
                    let found = store.document(&key).await?;
                    known.insert(key, found);
                }
                continue;
            }
        };
        let tasks = view.messages.iter().map(|(to, message)| message.task(*to, now)).collect();
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
pub(crate) async fn still_stand(store: &dyn Store, reads: &[Read]) -> Result<bool, store::Error> {
    for read in reads {
        let found = store.document(&read.key).await?;
        if found.map(|document| document.version) != read.version {
            return Ok(false);
        }
    }
    Ok(true)
}
