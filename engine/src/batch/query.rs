//! Reads batches and their items, and stops a batch.

use super::record::{BATCHES, ITEMS, end, load};
use crate::{Batch, BatchItem, Engine, Error, model::documents::parse::parse};
use store::{Commit, CompositeKey, Page, Read, Sequence};

impl<P: Send + Sync + 'static> Engine<P> {
    /// Returns the batch with this id.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn batch(&self, id: &str) -> Result<Option<Batch>, Error> {
        Ok(self.batch_as_read(id).await?.map(|(batch, _)| batch))
    }

    /// Returns the batch with this id, and its version.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn batch_as_read(&self, id: &str) -> Result<Option<(Batch, Sequence)>, Error> {
        load(self, id).await
    }

    /// Returns a page of batches, oldest first.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn batches(&self, after: Option<&str>, limit: usize) -> Result<Page<Batch, String>, Error> {
        let page = self.inner.store.documents(BATCHES, "", after, limit).await?;
        let items = page.items.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }

    /// Returns a page of a batch's items, in their order.
    ///
    /// # Errors
    /// Returns the store's error.
    pub async fn batch_items(
        &self,
        id: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<BatchItem, String>, Error> {
        let prefix = CompositeKey::of(&[&id]).prefix();
        let page = self.inner.store.documents(ITEMS, &prefix, after, limit).await?;
        let items = page.items.iter().map(parse).collect::<Result<_, _>>()?;
        Ok(Page { items, next: page.next })
    }
}

impl<P: Send + Sync + 'static> Engine<P> {
    /// Stops a batch: executions that were not processed yet stay unchanged. A finished batch stays as it is. With
    /// `expected`, only that version is stopped.
    ///
    /// # Errors
    /// Returns [`store::Error::Conflict`] if the version is not `expected`, or the store's error.
    pub async fn stop_batch(
        &self,
        id: &str,
        by: &str,
        expected: Option<Sequence>,
    ) -> Result<Option<Batch>, Error> {
        loop {
            let Some((mut batch, version)) = load(self, id).await? else { return Ok(None) };
            if expected.is_some_and(|expected| expected != version) {
                return Err(store::Error::Conflict { what: format!("batch {id}") }.into());
            }
            if batch.ended_at.is_some() {
                return Ok(Some(batch));
            }
            batch.stopped_by = Some(by.to_owned());
            let documents = end(&mut batch, self.inner.clock.now());
            let reads = vec![Read { key: batch.key(), version: Some(version) }];
            match self.inner.store.commit(Commit { reads, documents, ..Commit::default() }).await {
                Ok(_) => return Ok(Some(batch)),
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
