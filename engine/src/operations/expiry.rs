//! Removes expired documents of the engine itself: idempotency keys of starts, and ended batches.
//!
//! Called by the server's housekeeping. Invariant: a key stays while its execution is open, and no document of a
//! tenant under a legal hold is removed. Each removal is conditional on the version that was read.

use crate::{
    Engine, Error,
    batch::record::{BATCHES, Batch, ITEMS},
    model::{definition::action::DAY, documents::collection::REQUESTS},
    runtime::start::StoredRequestKey,
};
use std::collections::BTreeSet;
use store::{Commit, CompositeKey, Document, Put, Read, Timestamp};

/// The least number of days that a key is retained; longer while its execution is open.
const REQUEST_KEY_DAYS: u32 = 30;
/// The number of days that an ended batch is retained.
const BATCH_DAYS: u32 = 90;
/// The most documents that are read at once, and removed in one commit.
const PAGE: usize = 200;

impl<P: Send + Sync + 'static> Engine<P> {
    /// Removes expired idempotency keys and batches, except those of the tenants in `held`. Returns the number of
    /// documents.
    ///
    /// # Errors
    /// Returns the store's error. Earlier removals stay; the next call continues.
    pub async fn expire_own_documents(&self, held: &BTreeSet<String>) -> Result<u64, Error> {
        let keys = self.expire_request_keys(held).await?;
        Ok(keys.saturating_add(self.expire_batches(held).await?))
    }

    async fn expire_request_keys(&self, held: &BTreeSet<String>) -> Result<u64, Error> {
        let (mut gone, mut after) = (0_u64, None::<String>);
        loop {
            let page = self.inner.store.documents(REQUESTS, "", after.as_deref(), PAGE).await?;
            let mut old = Vec::new();
            for found in page.items {
                if self.is_key_over(&found, held).await? {
                    old.push(found);
                }
            }
            gone = gone.saturating_add(self.remove_as_read(&old).await?);
            after = page.next;
            if after.is_none() {
                return Ok(gone);
            }
        }
    }

    async fn is_key_over(&self, found: &Document, held: &BTreeSet<String>) -> Result<bool, Error> {
        let Ok(key) = serde_json::from_slice::<StoredRequestKey>(&found.body) else { return Ok(false) };
        if !is_over(key.execution.created_at(), REQUEST_KEY_DAYS, self.inner.clock.now()) {
            return Ok(false);
        }
        let record = self.inner.store.load(key.execution).await?;
        Ok(record.is_none_or(|record| !record.open && !held.contains(&record.tenant)))
    }

    async fn expire_batches(&self, held: &BTreeSet<String>) -> Result<u64, Error> {
        let (mut gone, mut after) = (0_u64, None::<String>);
        loop {
            let page = self.inner.store.documents(BATCHES, "", after.as_deref(), PAGE).await?;
            for found in &page.items {
                let Ok(batch) = serde_json::from_slice::<Batch>(&found.body) else { continue };
                let ended =
                    batch.ended_at.filter(|ended| is_over(*ended, BATCH_DAYS, self.inner.clock.now()));
                // A batch without a tenant has executions of all tenants.
                let is_held = batch.tenant.as_ref().map_or(!held.is_empty(), |tenant| held.contains(tenant));
                if ended.is_none() || is_held {
                    continue;
                }
                gone = gone.saturating_add(self.remove_items(&batch.id).await?);
                gone = gone.saturating_add(self.remove_as_read(std::slice::from_ref(found)).await?);
            }
            after = page.next;
            if after.is_none() {
                return Ok(gone);
            }
        }
    }

    /// The items go before the batch, so that the next run continues an interrupted removal.
    async fn remove_items(&self, batch: &str) -> Result<u64, Error> {
        let (prefix, mut gone) = (CompositeKey::of(&[&batch]).prefix(), 0_u64);
        loop {
            let page = self.inner.store.documents(ITEMS, &prefix, None, PAGE).await?;
            let removed = self.remove_as_read(&page.items).await?;
            gone = gone.saturating_add(removed);
            if page.next.is_none() || removed == 0 {
                return Ok(gone);
            }
        }
    }

    /// Removes documents if they are unchanged, and returns their number. If one has changed, all stay until the next
    /// run.
    async fn remove_as_read(&self, old: &[Document]) -> Result<u64, Error> {
        if old.is_empty() {
            return Ok(0);
        }
        let reads = old.iter().map(|found| Read { key: found.key.clone(), version: Some(found.version) });
        let documents = old.iter().map(|found| Put { key: found.key.clone(), body: None });
        let commit = Commit { reads: reads.collect(), documents: documents.collect(), ..Commit::default() };
        match self.inner.store.commit(commit).await {
            Ok(_) => Ok(u64::try_from(old.len()).unwrap_or(u64::MAX)),
            Err(store::Error::Conflict { .. }) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_over(since: Timestamp, days: u32, now: Timestamp) -> bool {
    since.after(DAY * days) <= now
}
