//! What a paged store remembers: which bodies are paged, at which version, and the content of pages.
//!
//! Only a shortcut: what is not remembered is read. A page is recognised by its digest, so a stale one is never used.

use super::head::{Head, Owner};
use crate::{Key, sync::lock_unpoisoned};
use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

/// When so many heads are remembered, all are forgotten.
const HEADS_LIMIT: usize = 65_536;
/// When so many bytes of pages are remembered, all are forgotten.
const PAGES_LIMIT: usize = 64 << 20;

/// A stored body at one version: its head, or that it is not paged.
type Stored = (u64, Option<Arc<Head>>);

#[derive(Default)]
pub(super) struct Cache {
    heads: Mutex<HashMap<Owner, Stored>>,
    pages: Mutex<CachedPages>,
}

#[derive(Default)]
struct CachedPages {
    bytes: usize,
    content: HashMap<Key, (String, Arc<[u8]>)>,
}

impl Cache {
    pub(super) fn insert(&self, owner: Owner, version: u64, head: Option<Arc<Head>>) {
        let mut heads = lock_unpoisoned(&self.heads);
        if heads.len() >= HEADS_LIMIT {
            heads.clear();
        }
        heads.insert(owner, (version, head));
    }

    pub(super) fn forget(&self, owner: &Owner) {
        lock_unpoisoned(&self.heads).remove(owner);
    }

    pub(super) fn stored(&self, owner: &Owner) -> Option<Stored> {
        lock_unpoisoned(&self.heads).get(owner).cloned()
    }

    pub(super) fn insert_page(&self, key: Key, digest: &str, content: Arc<[u8]>) {
        let mut pages = lock_unpoisoned(&self.pages);
        if pages.bytes >= PAGES_LIMIT {
            *pages = CachedPages::default();
        }
        pages.bytes = pages.bytes.saturating_add(content.len());
        if let Some((_, old)) = pages.content.insert(key, (digest.to_owned(), content)) {
            pages.bytes = pages.bytes.saturating_sub(old.len());
        }
    }

    pub(super) fn page(&self, key: &Key, digest: &str) -> Option<Arc<[u8]>> {
        let pages = lock_unpoisoned(&self.pages);
        pages.content.get(key).filter(|(known, _)| known == digest).map(|(_, content)| content.clone())
    }

    pub(super) fn forget_page(&self, key: &Key) {
        let mut pages = lock_unpoisoned(&self.pages);
        if let Some((_, old)) = pages.content.remove(key) {
            pages.bytes = pages.bytes.saturating_sub(old.len());
        }
    }
}
