//! A store with encrypted bodies: readable only with the record key of their tenant, and by no one after its
//! destruction.
//!
//! [`Encrypted`] wraps any [`Store`]; neither the disk nor exports nor backups contain a plain body. Encrypted are
//! the bodies of records, the details of their history and the bodies of their tasks, each with the key of the
//! record's tenant. Documents are encrypted with the platform's key, except for pages of a record, which have the
//! record's key. The columns for searches stay plain.

mod cipher;
mod key_folder;
mod undecryptable;

pub use crate::model::encrypted_body::KeyId;
pub use cipher::Secret;
pub use key_folder::{DestroyedKey, KeyFolder};
pub use undecryptable::Undecryptable;

use crate::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Page, Put, Query, Receipt, Record, Sequence, Store, Task, TaskId, Timestamp,
    model::{encrypted_body::EncryptedBody, limits, page_key::execution_of},
    sync::lock_unpoisoned,
};
use async_trait::async_trait;
use key_folder::KeyStatus;
use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Marks a store with encrypted bodies. Never encrypted itself.
const NOTE: (&str, &str) = ("seal", "state");
/// The most execution owners cached. At this size the cache is cleared.
const OWNERS_LIMIT: usize = 100_000;

/// Returns true if something in `store` is encrypted, so that it needs its record keys.
///
/// # Errors
/// Returns the store's error.
pub async fn is_encrypted(store: &dyn Store) -> Result<bool, Error> {
    Ok(store.document(&Key::new(NOTE.0, NOTE.1)).await?.is_some())
}

/// Encrypts the bodies of an inner store.
pub struct Encrypted<S: ?Sized> {
    inner: Arc<S>,
    keys: Arc<KeyFolder>,
    platform_workflows: BTreeSet<&'static str>,
    owners: Mutex<HashMap<ExecutionId, Arc<str>>>,
    /// True if the store is marked as encrypted.
    noted: AtomicBool,
}

impl<S: Store + ?Sized> Encrypted<S> {
    /// Encrypts new writes to `inner`. Plain bodies that exist stay and can be read. Executions of the workflows in
    /// `platform_workflows` belong to the platform, whatever their tenant, because they must outlast it.
    pub fn new(
        inner: Arc<S>,
        keys: Arc<KeyFolder>,
        platform_workflows: impl IntoIterator<Item = &'static str>,
    ) -> Self {
        let platform_workflows = platform_workflows.into_iter().collect();
        Self { inner, keys, platform_workflows, owners: Mutex::default(), noted: AtomicBool::new(false) }
    }

    /// The record keys.
    #[must_use]
    pub fn keys(&self) -> &Arc<KeyFolder> {
        &self.keys
    }

    fn owner_of(&self, record: &Record) -> Arc<str> {
        if self.platform_workflows.contains(record.workflow.as_str()) {
            "".into()
        } else {
            record.tenant.as_str().into()
        }
    }

    /// Returns the owner of the key for the history of an execution. Entries without a record belong to the platform.
    async fn owner(&self, id: ExecutionId) -> Result<Arc<str>, Error> {
        if let Some(known) = lock_unpoisoned(&self.owners).get(&id) {
            return Ok(known.clone());
        }
        let Some(record) = self.inner.load(id).await? else { return Ok("".into()) };
        let owner = self.owner_of(&record);
        self.cache_owner(id, owner.clone());
        Ok(owner)
    }

    fn cache_owner(&self, id: ExecutionId, owner: Arc<str>) {
        let mut owners = lock_unpoisoned(&self.owners);
        if owners.len() >= OWNERS_LIMIT {
            owners.clear();
        }
        owners.insert(id, owner);
    }

    fn encrypt(&self, owner: &str, about: &str, body: &mut Vec<u8>) -> Result<(), Error> {
        let key = self.keys.key(owner)?;
        let sealed = cipher::encrypt(owner, key.id, &key.secret, about, body);
        *body = sealed.map_err(|why| Error::Unavailable { why: format!("{about}: {why}") })?;
        Ok(())
    }

    /// Returns the plain body, or why it is not available.
    fn decrypt(&self, about: &str, body: Vec<u8>) -> Result<Result<Vec<u8>, Undecryptable>, Error> {
        let Some(envelope) = EncryptedBody::from_bytes(&body) else { return Ok(Ok(body)) };
        let envelope = envelope.map_err(|why| Error::Corrupt { what: about.into(), why })?;
        let lost = |destroyed_at| Undecryptable {
            owner: envelope.owner.into(),
            key: envelope.key.to_string(),
            destroyed_at,
        };
        Ok(match self.keys.status(envelope.owner, envelope.key)? {
            KeyStatus::Available(key) => {
                cipher::decrypt(&envelope, &key.secret, about).ok_or_else(|| lost(None))
            }
            KeyStatus::Destroyed(at) => Err(lost(Some(at))),
            KeyStatus::Missing => Err(lost(None)),
        })
    }

    /// Returns the record with its body, or with a marker that contains the reason. The columns are always readable.
    fn decrypted_record(&self, mut record: Record) -> Result<Record, Error> {
        let body = self.decrypt(&about_record(record.id), record.body)?;
        record.body = body.unwrap_or_else(Undecryptable::into_body);
        Ok(record)
    }

    fn decrypted_entry(&self, mut entry: Entry) -> Result<Entry, Error> {
        let detail = self.decrypt(&about_entry(entry.execution), entry.detail)?;
        entry.detail = detail.unwrap_or_else(Undecryptable::into_body);
        Ok(entry)
    }

    /// A task whose body cannot be opened for now is not delivered: it is delivered again when its lease has expired.
    fn decrypted_lease(&self, lease: Lease) -> Result<Option<Lease>, Error> {
        let task = self.decrypted_task(lease.task.clone())?;
        if let Some(Undecryptable { destroyed_at: None, .. }) = Undecryptable::from_body(&task.body) {
            tracing::error!(task = %task.id, "the record key of a task is missing; restore the folder of record keys");
            return Ok(None);
        }
        Ok(Some(Lease { task, ..lease }))
    }

    fn decrypted_task(&self, mut task: Task) -> Result<Task, Error> {
        let body = self.decrypt(&about_task(task.id.execution), task.body)?;
        task.body = body.unwrap_or_else(Undecryptable::into_body);
        Ok(task)
    }

    /// A document has no marker: a decision that depends on it must fail.
    fn decrypted_document(&self, document: Document) -> Result<Document, Error> {
        let about = about_document(&document.key);
        match self.decrypt(&about, document.body)? {
            Ok(body) => Ok(Document { body, ..document }),
            // The record or document of the page has the same marker; only the page's name is needed, to remove it.
            Err(unopened) if execution_of(&document.key).is_some() => {
                Ok(Document { body: unopened.into_body(), ..document })
            }
            Err(unopened) => Err(Error::Corrupt { what: about, why: unopened.to_string() }),
        }
    }
}

fn about_record(id: ExecutionId) -> String {
    format!("record {id}")
}

fn about_entry(id: ExecutionId) -> String {
    format!("history of {id}")
}

fn about_task(id: ExecutionId) -> String {
    format!("task of {id}")
}

fn about_document(key: &Key) -> String {
    format!("document {key}")
}

#[async_trait]
impl<S: Store + ?Sized> Store for Encrypted<S> {
    async fn commit(&self, mut commit: Commit) -> Result<Receipt, Error> {
        limits::check(&commit)?;
        if let Some(write) = &mut commit.record {
            let owner = self.owner_of(&write.record);
            let about = about_record(write.record.id);
            self.encrypt(&owner, &about, &mut write.record.body)?;
            self.cache_owner(write.record.id, owner);
        }
        for entry in &mut commit.journal {
            let owner = self.owner(entry.execution).await?;
            self.encrypt(&owner, &about_entry(entry.execution), &mut entry.detail)?;
        }
        for put in &mut commit.documents {
            if let Some(body) = &mut put.body {
                let owner = match execution_of(&put.key) {
                    Some(execution) => self.owner(execution).await?,
                    None => "".into(),
                };
                self.encrypt(&owner, &about_document(&put.key), body)?;
            }
        }
        for task in commit.schedule.iter_mut().filter(|task| !task.body.is_empty()) {
            let owner = self.owner(task.id.execution).await?;
            self.encrypt(&owner, &about_task(task.id.execution), &mut task.body)?;
        }
        if !self.noted.load(Ordering::Acquire) {
            let key = Key::new(NOTE.0, NOTE.1);
            commit.documents.push(Put { key, body: Some(br#"{"version":1}"#.to_vec()) });
        }
        let receipt = self.inner.commit(commit).await?;
        self.noted.store(true, Ordering::Release);
        Ok(receipt)
    }

    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        self.inner.load(id).await?.map(|record| self.decrypted_record(record)).transpose()
    }

    async fn guard_holder(&self, guard: &str) -> Result<Option<ExecutionId>, Error> {
        self.inner.guard_holder(guard).await
    }

    async fn journal(
        &self,
        id: ExecutionId,
        after: Option<(Sequence, u32)>,
        limit: usize,
    ) -> Result<Page<Entry, (Sequence, u32)>, Error> {
        let Page { items, next } = self.inner.journal(id, after, limit).await?;
        let items = items.into_iter().map(|entry| self.decrypted_entry(entry)).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }

    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error> {
        let Page { items, next } = self.inner.history(after, limit).await?;
        let items = items.into_iter().map(|(place, entry)| Ok((place, self.decrypted_entry(entry)?)));
        Ok(Page { items: items.collect::<Result<_, Error>>()?, next })
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error> {
        let Page { items, next } = self.inner.list(filter, after, limit).await?;
        let items =
            items.into_iter().map(|record| self.decrypted_record(record)).collect::<Result<_, _>>()?;
        Ok(Page { items, next })
    }

    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error> {
        let found = self.inner.search(query, after, limit).await?;
        let items =
            found.items.into_iter().map(|record| self.decrypted_record(record)).collect::<Result<_, _>>()?;
        Ok(Found { items, ..found })
    }

    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error> {
        self.inner.unreadable().await
    }

    async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        self.inner.document(key).await?.map(|document| self.decrypted_document(document)).transpose()
    }

    async fn documents_of(&self, keys: &[Key]) -> Result<Vec<Option<Document>>, Error> {
        let found = self.inner.documents_of(keys).await?;
        found
            .into_iter()
            .map(|found| found.map(|document| self.decrypted_document(document)).transpose())
            .collect()
    }

    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        let Page { items, next } = self.inner.documents(collection, prefix, after, limit).await?;
        let items = items.into_iter().map(|document| self.decrypted_document(document));
        Ok(Page { items: items.collect::<Result<_, _>>()?, next })
    }

    async fn lease(
        &self,
        holder: &str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Result<Vec<Lease>, Error> {
        let leases = self.inner.lease(holder, now, ttl, limit).await?;
        let (mut decrypted, mut failure) = (Vec::new(), None);
        for lease in leases {
            let task = lease.task.id;
            match self.decrypted_lease(lease) {
                Ok(lease) => decrypted.extend(lease),
                // The lease of this task expires; the others are used.
                Err(error) => {
                    tracing::error!(%task, %error, "a task cannot be decrypted; its lease will expire");
                    failure = Some(error);
                }
            }
        }
        match failure {
            Some(error) if decrypted.is_empty() => Err(error),
            Some(_) | None => Ok(decrypted),
        }
    }

    fn lease_from_memory(&self, holder: &str, now: Timestamp, ttl: Duration) -> Option<Lease> {
        let lease = self.inner.lease_from_memory(holder, now, ttl)?;
        self.decrypted_lease(lease).ok().flatten()
    }

    async fn renew(&self, task: TaskId, epoch: Epoch, until: Timestamp) -> Result<(), Error> {
        self.inner.renew(task, epoch, until).await
    }

    async fn release(
        &self,
        task: TaskId,
        epoch: Epoch,
        due: Timestamp,
        deliveries: u32,
    ) -> Result<(), Error> {
        self.inner.release(task, epoch, due, deliveries).await
    }

    async fn hasten(&self, task: TaskId, due: Timestamp) -> Result<bool, Error> {
        self.inner.hasten(task, due).await
    }

    async fn tasks(&self, id: ExecutionId) -> Result<Vec<Task>, Error> {
        self.inner.tasks(id).await?.into_iter().map(|task| self.decrypted_task(task)).collect()
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, Error> {
        self.inner.next_due().await
    }

    async fn hold(&self, hold: Hold) -> Result<(), Error> {
        self.inner.hold(hold).await
    }

    async fn current_hold(&self) -> Result<Option<Hold>, Error> {
        self.inner.current_hold().await
    }

    async fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        self.inner.unhold(since).await
    }

    async fn wait_for_changes(&self) {
        self.inner.wait_for_changes().await;
    }

    async fn health(&self) -> Health {
        self.inner.health().await
    }
}
