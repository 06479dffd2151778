//! Reads paged bodies: replaces heads by their bodies.
//!
//! A head and its pages are not read at one moment. If a later commit has removed or rewritten a page, its digest
//! does not match, and the row is read again.

use super::{
    PAGES, Paged,
    head::{Head, Owner, OwnerRef, PageRef, digest, is_head},
};
use crate::{Document, Error, ExecutionId, Key, Page, Record};
use std::sync::Arc;

/// The tries to read a row that changes while its pages are read.
const MAX_TRIES: usize = 16;
/// The most bytes of paged bodies in one answer of a list; a longer list continues on its next page. At least one
/// body is returned.
const LIST_BYTES: usize = 16 << 20;

impl Paged {
    pub(super) async fn load_whole(&self, id: ExecutionId) -> Result<Option<Record>, Error> {
        let owner = Owner::Record(id);
        for _ in 0..MAX_TRIES {
            let Some(mut record) = self.inner.load(id).await? else { return Ok(None) };
            let Some(head) = Head::from_body(&owner, &record.body)?.map(Arc::new) else {
                self.cache.insert_plain(owner.by_ref(), record.revision.0);
                return Ok(Some(record));
            };
            self.cache.insert(owner.clone(), record.revision.0, Some(head.clone()));
            if let Some(body) = self.body(&owner, &head).await? {
                record.body = body;
                return Ok(Some(record));
            }
        }
        Err(incomplete(&owner))
    }

    pub(super) async fn whole_documents_of(&self, keys: &[Key]) -> Result<Vec<Option<Document>>, Error> {
        let read = self.inner.documents_of(keys).await?;
        let mut found = Vec::with_capacity(read.len());
        for document in read {
            found.push(match document {
                Some(document) if is_head(&document.body) => self.whole_document(document).await?,
                Some(document) => Some(self.plain(document)),
                None => None,
            });
        }
        Ok(found)
    }

    pub(super) async fn whole_documents(
        &self,
        collection: &str,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Document, String>, Error> {
        for _ in 0..MAX_TRIES {
            // Everything is read again after a change, so that the result is of one moment.
            let page = self.inner.documents(collection, prefix, after, limit).await?;
            if collection == PAGES || !page.items.iter().any(|document| is_head(&document.body)) {
                return Ok(page);
            }
            if let Some(page) = self.whole_page(page).await? {
                return Ok(page);
            }
        }
        Err(Error::Unavailable {
            why: format!("the documents of {collection} change too often to be listed"),
        })
    }

    async fn whole_page(
        &self,
        page: Page<Document, String>,
    ) -> Result<Option<Page<Document, String>>, Error> {
        let mut whole = Page { items: Vec::with_capacity(page.items.len()), next: page.next };
        let mut bytes = 0_usize;
        let mut rest = page.items.into_iter().peekable();
        while let Some(mut document) = rest.next() {
            let owner = Owner::Document(document.key.clone());
            if let Some(head) = Head::from_body(&owner, &document.body)? {
                bytes = bytes.saturating_add(head.bytes);
                let head = Arc::new(head);
                let Some(body) = self.body(&owner, &head).await? else { return Ok(None) };
                document.body = body;
                self.cache.insert(owner, document.version.0, Some(head));
            }
            let id = document.key.id.clone();
            whole.items.push(document);
            if bytes >= LIST_BYTES && rest.peek().is_some() {
                whole.next = Some(id);
                break;
            }
        }
        Ok(Some(whole))
    }

    /// Returns the records with their bodies, and the record after which the list must continue because of their
    /// size. Unreadable and removed records are skipped.
    pub(super) async fn whole_records(
        &self,
        records: Vec<Record>,
    ) -> Result<(Vec<Record>, Option<ExecutionId>), Error> {
        if !records.iter().any(|record| is_head(&record.body)) {
            return Ok((records, None));
        }
        let mut whole = Vec::with_capacity(records.len());
        let mut bytes = 0_usize;
        let mut rest = records.into_iter().peekable();
        while let Some(record) = rest.next() {
            let id = record.id;
            if !is_head(&record.body) {
                whole.push(record);
                continue;
            }
            match self.whole_record(record).await {
                Ok(Some(record)) => {
                    bytes = bytes.saturating_add(record.body.len());
                    whole.push(record);
                }
                Ok(None) => {}
                Err(error @ Error::Corrupt { .. }) => {
                    tracing::error!(execution = %id, %error, "a record is skipped");
                }
                Err(error) => return Err(error),
            }
            if bytes >= LIST_BYTES && rest.peek().is_some() {
                return Ok((whole, Some(id)));
            }
        }
        Ok((whole, None))
    }

    async fn whole_record(&self, mut record: Record) -> Result<Option<Record>, Error> {
        let owner = Owner::Record(record.id);
        if let Some(head) = Head::from_body(&owner, &record.body)?
            && let Some(body) = self.body(&owner, &head).await?
        {
            record.body = body;
            return Ok(Some(record));
        }
        self.load_whole(record.id).await
    }

    pub(super) async fn whole_document(&self, mut document: Document) -> Result<Option<Document>, Error> {
        let owner = Owner::Document(document.key.clone());
        for _ in 0..MAX_TRIES {
            let Some(head) = Head::from_body(&owner, &document.body)?.map(Arc::new) else {
                return Ok(Some(self.plain(document)));
            };
            if let Some(body) = self.body(&owner, &head).await? {
                self.cache.insert(owner, document.version.0, Some(head));
                return Ok(Some(Document { body, ..document }));
            }
            let Some(again) = self.inner.document(&document.key).await? else { return Ok(None) };
            document = again;
        }
        Err(incomplete(&owner))
    }

    pub(super) fn plain(&self, document: Document) -> Document {
        self.cache.insert_plain(OwnerRef::Document(&document.key), document.version.0);
        document
    }

    /// Returns the body of `head`, or `None` if a page does not match.
    async fn body(&self, owner: &Owner, head: &Head) -> Result<Option<Vec<u8>>, Error> {
        let pages: Vec<(&PageRef, Key)> = head.pages.iter().map(|page| (page, page.key(owner))).collect();
        let mut content: Vec<Option<Arc<[u8]>>> =
            pages.iter().map(|(page, key)| self.cache.page(key, page.digest())).collect();
        let missing: Vec<_> =
            pages.iter().zip(&mut content).filter(|(_, content)| content.is_none()).collect();
        let keys: Vec<Key> = missing.iter().map(|((_, key), _)| key.clone()).collect();
        let read = if keys.is_empty() { Vec::new() } else { self.inner.documents_of(&keys).await? };
        for (((page, key), content), found) in missing.into_iter().zip(read) {
            let Some(found) = found.filter(|found| digest(&found.body) == page.digest()) else {
                return Ok(None);
            };
            let found: Arc<[u8]> = found.body.into();
            self.cache.insert_page(key.clone(), page.digest(), found.clone());
            *content = Some(found);
        }
        let mut body = Vec::with_capacity(head.bytes);
        for page in content {
            let Some(page) = page else { return Ok(None) };
            body.extend_from_slice(&page);
        }
        Ok((body.len() == head.bytes).then_some(body))
    }
}

fn incomplete(owner: &Owner) -> Error {
    Error::Corrupt { what: owner.describe(), why: "a page of it is missing or has other content".into() }
}
