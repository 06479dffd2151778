//! Writes paged bodies: splits large bodies, and removes unused pages in the same commit.
//!
//! The stored pages follow from the version that a write replaces. A document that is written without a condition
//! gets one here, so that no page is left behind; if it has changed meanwhile, its head is read again.

use super::{
    INLINE_LIMIT, PAGED_LIMIT, PAGES, Paged,
    cache::Stored,
    head::{Head, Owner, OwnerRef, is_head},
};
use crate::{Commit, Erase, Error, Key, Put, Read, Receipt, Revision, Sequence, encrypted::Undecryptable};
use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

/// The tries of a commit whose own conditions are true, but not the added ones.
const MAX_TRIES: usize = 64;

/// The most documents of a commit that are checked, one by one, not to be paged.
const MOST_LOOKED_UP: usize = 64;

/// The data that a commit replaces.
#[derive(Default)]
struct Replaced {
    /// The version of each existing owner, and its head if it is paged.
    stored: HashMap<Owner, Stored>,
    /// The conditions to add.
    reads: Vec<Read>,
}

impl Replaced {
    fn head(&self, owner: &Owner) -> Option<&Arc<Head>> {
        self.stored.get(owner)?.1.as_ref()
    }

    fn version(&self, owner: &Owner) -> u64 {
        self.stored.get(owner).map_or(0, |(version, _)| *version)
    }
}

/// The state after a commit.
type Written = Vec<(Owner, Option<Arc<Head>>)>;

impl Paged {
    pub(super) async fn commit_in_pages(&self, commit: Commit) -> Result<Receipt, Error> {
        if self.is_plain(&commit) {
            return self.commit_plain(commit).await;
        }
        for _ in 0..MAX_TRIES {
            let replaced = self.replaced(&commit).await?;
            if replaced.reads.is_empty() {
                return self.commit_once(commit, replaced).await;
            }
            let added: Vec<String> =
                replaced.reads.iter().map(|read| format!("document {}", read.key)).collect();
            match self.commit_once(commit.clone(), replaced).await {
                Err(Error::Conflict { what }) if added.contains(&what) => {}
                other => return other,
            }
        }
        Err(Error::Unavailable { why: "documents of a commit changed too often during its creation".into() })
    }

    /// Returns true if the commit neither writes nor removes pages. Almost all commits are like that.
    fn is_plain(&self, commit: &Commit) -> bool {
        let short = |body: &[u8]| body.len() <= INLINE_LIMIT && !is_head(body);
        let record = commit.record.as_ref().is_none_or(|write| {
            let known = |expected: Revision| {
                self.cache
                    .plain(OwnerRef::Record(write.record.id))
                    .is_some_and(|version| version == expected.0)
            };
            short(&write.record.body) && write.expected.is_none_or(known)
        });
        let document = |put: &Put| {
            let known = self.cache.plain(OwnerRef::Document(&put.key));
            let condition = commit.reads.iter().find(|read| read.key == put.key).map(|read| read.version);
            let replaces_plain = match condition {
                Some(None) => true,
                Some(Some(version)) => known == Some(version.0),
                // Another server may have paged it since.
                None => false,
            };
            put.body.as_deref().is_none_or(short) && replaces_plain
        };
        record
            && commit.erase.is_none()
            && commit.documents.len() <= MOST_LOOKED_UP
            && commit.documents.iter().all(document)
    }

    async fn commit_plain(&self, commit: Commit) -> Result<Receipt, Error> {
        let record = commit.record.as_ref().map(|write| (write.record.id, write.record.open));
        let documents: Vec<u64> =
            commit.documents.iter().map(|put| self.cache.hash(OwnerRef::Document(&put.key))).collect();
        let receipt = self.inner.commit(commit).await?;
        if let Some((id, open)) = record {
            let owner = OwnerRef::Record(id);
            if open {
                self.cache.insert_plain(owner, receipt.revision.unwrap_or_default().0);
            } else {
                self.cache.forget_plain(owner);
            }
        }
        documents.iter().for_each(|hash| self.cache.insert_hashed(*hash, receipt.sequence.0));
        Ok(receipt)
    }

    async fn replaced(&self, commit: &Commit) -> Result<Replaced, Error> {
        let mut replaced = Replaced::default();
        if let Some(write) = &commit.record
            && let Some(expected) = write.expected
        {
            let owner = Owner::Record(write.record.id);
            let head = self.record_head(&owner, write.record.id, expected).await?;
            replaced.stored.insert(owner, (expected.0, head));
        }
        let conditions: HashMap<&Key, Option<Sequence>> =
            commit.reads.iter().map(|read| (&read.key, read.version)).collect();
        let mut ask = Vec::new();
        for put in &commit.documents {
            let owner = Owner::Document(put.key.clone());
            let stored = self.cache.stored(&owner);
            match (conditions.get(&put.key).copied(), stored) {
                // It must be new.
                (Some(None), _) => {}
                (Some(Some(version)), Some(stored)) if stored.0 == version.0 => {
                    replaced.stored.insert(owner, stored);
                }
                (Some(Some(_)) | None, _) => ask.push(put),
            }
        }
        self.ask(&ask, &conditions, &mut replaced).await?;
        Ok(replaced)
    }

    /// Reads the existing versions of written documents that are not cached.
    async fn ask(
        &self,
        puts: &[&Put],
        conditions: &HashMap<&Key, Option<Sequence>>,
        replaced: &mut Replaced,
    ) -> Result<(), Error> {
        let keys: Vec<Key> = puts.iter().map(|put| put.key.clone()).collect();
        let found = match &*keys {
            [] => return Ok(()),
            [key] => vec![self.inner.document(key).await?],
            keys => self.inner.documents_of(keys).await?,
        };
        for (put, found) in puts.iter().zip(found) {
            let owner = Owner::Document(put.key.clone());
            let version = found.as_ref().map(|found| found.version);
            let head = found.as_ref().map(|found| Head::from_body(&owner, &found.body)).transpose()?;
            let head = head.flatten().map(Arc::new);
            if (head.is_some() || length(put) > INLINE_LIMIT) && !conditions.contains_key(&put.key) {
                replaced.reads.push(Read { key: put.key.clone(), version });
            }
            if let Some(version) = version {
                replaced.stored.insert(owner, (version.0, head));
            }
        }
        Ok(())
    }

    async fn record_head(
        &self,
        owner: &Owner,
        id: crate::ExecutionId,
        expected: Revision,
    ) -> Result<Option<Arc<Head>>, Error> {
        if let Some((version, head)) = self.cache.stored(owner)
            && version == expected.0
        {
            return Ok(head);
        }
        let Some(record) = self.inner.load(id).await? else { return Ok(None) };
        Ok(Head::from_body(owner, &record.body)?.map(Arc::new))
    }

    async fn commit_once(&self, mut commit: Commit, replaced: Replaced) -> Result<Receipt, Error> {
        let mut pages: BTreeMap<Key, Option<Vec<u8>>> = BTreeMap::new();
        let mut written = Written::new();
        if let Some(write) = &mut commit.record {
            let owner = Owner::Record(write.record.id);
            let body = std::mem::take(&mut write.record.body);
            let (body, head) = self.cut(&owner, &replaced, Some(body), &mut pages)?;
            write.record.body = body.unwrap_or_default();
            written.push((owner, head));
        }
        keep_last_writes(&mut commit.documents);
        for put in &mut commit.documents {
            let owner = Owner::Document(put.key.clone());
            let (body, head) = self.cut(&owner, &replaced, put.body.take(), &mut pages)?;
            put.body = body;
            written.push((owner, head));
        }
        let erased = match &commit.erase {
            Some(erase) => self.pages_of_erased(erase).await?,
            None => Vec::new(),
        };
        pages.extend(erased.into_iter().map(|key| (key, None)));
        let gone: Vec<Key> =
            pages.iter().filter(|(_, body)| body.is_none()).map(|(key, _)| key.clone()).collect();
        commit.documents.extend(pages.into_iter().map(|(key, body)| Put { key, body }));
        commit.reads.extend(replaced.reads);
        let record = commit.record.as_ref().map(|write| (write.record.id, write.record.open));
        let receipt = self.inner.commit(commit).await?;
        gone.iter().for_each(|key| self.cache.forget_page(key));
        for (owner, head) in written {
            match &owner {
                Owner::Record(id) if record == Some((*id, false)) => self.cache.forget(&owner),
                Owner::Record(_) => {
                    self.cache.insert(owner, receipt.revision.unwrap_or_default().0, head);
                }
                Owner::Document(_) => self.cache.insert(owner, receipt.sequence.0, head),
            }
        }
        Ok(receipt)
    }

    /// Returns the row of a body, and its head if it is paged. Adds the pages to write and to remove to `pages`.
    fn cut(
        &self,
        owner: &Owner,
        replaced: &Replaced,
        body: Option<Vec<u8>>,
        pages: &mut BTreeMap<Key, Option<Vec<u8>>>,
    ) -> Result<Row, Error> {
        let old = replaced.head(owner).map(Arc::as_ref);
        if body.as_deref().is_some_and(is_head) {
            return Err(Error::Invalid { what: format!("{} begins like a list of pages", owner.describe()) });
        }
        let (row, head) = match body {
            Some(body) if body.len() > PAGED_LIMIT => {
                let (what, size) = (owner.describe(), body.len());
                return Err(Error::TooLarge { what, size, limit: PAGED_LIMIT });
            }
            Some(body) if body.len() > INLINE_LIMIT => {
                let content = self.known_content(owner, old);
                let (head, added) = Head::from_pages(old, &content, replaced.version(owner), &body);
                for (page, content) in added {
                    let key = page.key(owner);
                    self.cache.insert_page(key.clone(), page.digest(), content.into());
                    pages.insert(key, Some(content.to_vec()));
                }
                (Some(head.to_body()), Some(Arc::new(head)))
            }
            body => (body, None),
        };
        for page in Head::dropped(old, head.as_deref()) {
            pages.entry(page.key(owner)).or_insert(None);
        }
        Ok((row, head))
    }

    /// Returns the content of the pages of `head`, if all of them are cached.
    fn known_content(&self, owner: &Owner, head: Option<&Head>) -> Vec<Arc<[u8]>> {
        let pages = head.map_or(&[][..], |head| head.pages.as_slice());
        let content = pages.iter().map(|page| self.cache.page(&page.key(owner), page.digest()));
        content.collect::<Option<_>>().unwrap_or_default()
    }

    /// Returns the pages of a record that this commit removes. A record with a long history stays until its last part is erased.
    async fn pages_of_erased(&self, erase: &Erase) -> Result<Vec<Key>, Error> {
        let id = erase.execution;
        let Some(record) = self.inner.load(id).await? else { return Ok(Vec::new()) };
        // A body whose key was destroyed may have been a head.
        if !is_head(&record.body) && Undecryptable::from_body(&record.body).is_none() {
            return Ok(Vec::new());
        }
        let left = self.inner.journal(id, None, erase.entries.saturating_add(1)).await?;
        let last = left.items.len() <= erase.entries
            && left.next.is_none()
            && left.items.iter().all(|entry| entry.sequence <= erase.upto);
        let (mut keys, mut after) = (Vec::new(), None::<String>);
        if !last {
            return Ok(keys);
        }
        loop {
            let prefix = Owner::Record(id).prefix();
            let page = self.inner.documents(PAGES, &prefix, after.as_deref(), 256).await?;
            keys.extend(page.items.into_iter().map(|document| document.key));
            after = page.next;
            if after.is_none() {
                return Ok(keys);
            }
        }
    }
}

/// Returns the row of a body, and its head if it is paged.
type Row = (Option<Vec<u8>>, Option<Arc<Head>>);

/// The later of two writes of one document counts.
fn keep_last_writes(documents: &mut Vec<Put>) {
    if documents.len() > 1 {
        let mut seen = HashSet::with_capacity(documents.len());
        documents.reverse();
        documents.retain(|put| seen.insert(put.key.clone()));
        documents.reverse();
    }
}

fn length(put: &Put) -> usize {
    put.body.as_ref().map_or(0, Vec::len)
}
