//! A store whose large bodies are stored as pages, so that the size of rows is bounded.
//!
//! [`paged`] wraps any [`Store`]. A body of a record or a document over [`INLINE_LIMIT`] is split into pages of at
//! most 48 KiB, each a document of the collection [`PAGES`], and its row has a head with their names and digests. A
//! commit writes the changed pages and removes unused ones together with the head. Shorter bodies are stored
//! unchanged, and bodies of earlier versions can be read. `docs/adr/0031-large-bodies-are-stored-as-pages.md` has the
//! format.
//!
//! Invariant: a reader of this store never sees a head, and the removal of an owner removes its pages.

mod cache;
mod head;
mod read;
mod split;
#[cfg(test)]
mod tests;
mod write;

pub use crate::model::page_key::PAGES;

use crate::{
    Commit, Document, Entry, Epoch, Error, ExecutionId, Filter, Found, Health, History, Hold, Key, Lease,
    Page, Query, Receipt, Record, Sequence, Store, Task, TaskId, Timestamp,
};
use async_trait::async_trait;
use cache::Cache;
use head::is_head;
use std::{future::Future, pin::Pin, sync::Arc, time::Duration};

/// The longest body that is stored as it is, in bytes.
pub const INLINE_LIMIT: usize = 32 << 10;
/// The longest body that is stored as pages, in bytes.
pub const PAGED_LIMIT: usize = 24 << 20;

/// Wraps `store` so that large bodies are stored as pages. Returns a store that does so already unchanged.
#[must_use]
pub fn paged(store: Arc<dyn Store>) -> Arc<dyn Store> {
    if store.is_paged() { store } else { Arc::new(Paged { inner: store, cache: Cache::default() }) }
}

/// The future of a call of the inner store. Calls that need no change return it directly, because another future
/// around it would be another allocation.
type Promise<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Wraps a store without pages.
struct Paged {
    inner: Arc<dyn Store>,
    cache: Cache,
}

#[async_trait]
impl Store for Paged {
    fn is_paged(&self) -> bool {
        true
    }

    async fn commit(&self, commit: Commit) -> Result<Receipt, Error> {
        self.commit_in_pages(commit).await
    }

    async fn load(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        self.load_whole(id).await
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
        self.inner.journal(id, after, limit).await
    }

    async fn history(&self, after: Option<(Sequence, u32)>, limit: usize) -> Result<History, Error> {
        self.inner.history(after, limit).await
    }

    async fn list(
        &self,
        filter: &Filter,
        after: Option<ExecutionId>,
        limit: usize,
    ) -> Result<Page<Record, ExecutionId>, Error> {
        let Page { items, next } = self.inner.list(filter, after, limit).await?;
        let (items, cut) = self.whole_records(items).await?;
        Ok(Page { items, next: cut.or(next) })
    }

    async fn search(&self, query: &Query, after: Option<ExecutionId>, limit: usize) -> Result<Found, Error> {
        let found = self.inner.search(query, after, limit).await?;
        let (items, cut) = self.whole_records(found.items).await?;
        Ok(Found { items, partial: found.partial || cut.is_some(), next: cut.or(found.next) })
    }

    async fn unreadable(&self) -> Result<Vec<(ExecutionId, String)>, Error> {
        self.inner.unreadable().await
    }

    async fn document(&self, key: &Key) -> Result<Option<Document>, Error> {
        match self.inner.document(key).await? {
            Some(document) if is_head(&document.body) => self.whole_document(document).await,
            found => Ok(found.map(|document| self.plain(document))),
        }
    }

    async fn documents_of(&self, keys: &[Key]) -> Result<Vec<Option<Document>>, Error> {
        self.whole_documents_of(keys).await
    }

    async fn documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        self.whole_documents(collection, prefix, after, limit).await
    }

    fn lease<'a, 'b, 'c>(
        &'a self,
        holder: &'b str,
        now: Timestamp,
        ttl: Duration,
        limit: usize,
    ) -> Promise<'c, Result<Vec<Lease>, Error>>
    where
        'a: 'c,
        'b: 'c,
        Self: 'c,
    {
        self.inner.lease(holder, now, ttl, limit)
    }

    fn lease_from_memory(&self, holder: &str, now: Timestamp, ttl: Duration) -> Option<Lease> {
        self.inner.lease_from_memory(holder, now, ttl)
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
        self.inner.tasks(id).await
    }

    fn next_due<'a, 'b>(&'a self) -> Promise<'b, Result<Option<Timestamp>, Error>>
    where
        'a: 'b,
        Self: 'b,
    {
        self.inner.next_due()
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
