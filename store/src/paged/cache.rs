//! The cache of a paged store: which bodies are paged, at which version, and the content of pages.
//!
//! It only saves reads. A page is verified by its digest, so a stale one is never used.

use super::head::{Head, Owner, OwnerRef};
use crate::{Key, sync::lock_unpoisoned};
use std::{
    collections::{HashMap, hash_map::RandomState},
    hash::BuildHasher as _,
    sync::{Arc, Mutex},
};

/// The most bodies cached. At this size the cache is cleared.
const BODIES_LIMIT: usize = 262_144;
/// The most heads cached.
const HEADS_LIMIT: usize = 16_384;
/// The most bytes of pages cached. At this size the cache is cleared.
const PAGES_LIMIT: usize = 64 << 20;

/// A stored body at one version: its head, or that it is not paged.
pub(super) type Stored = (u64, Option<Arc<Head>>);

#[derive(Default)]
pub(super) struct Cache {
    hasher: RandomState,
    /// The versions of bodies that are not paged, by a hash of their owners. A hash collision with the same version
    /// would at worst leave unused pages behind.
    plain: Mutex<HashMap<u64, u64>>,
    heads: Mutex<HashMap<Owner, (u64, Arc<Head>)>>,
    pages: Mutex<CachedPages>,
}

#[derive(Default)]
struct CachedPages {
    bytes: usize,
    content: HashMap<Key, (String, Arc<[u8]>)>,
}

impl Cache {
    /// The cache key of `owner` in [`Cache::insert_hashed`].
    pub(super) fn hash(&self, owner: OwnerRef<'_>) -> u64 {
        self.hasher.hash_one(owner)
    }

    /// Records that the body of `owner` is not paged.
    pub(super) fn insert_plain(&self, owner: OwnerRef<'_>, version: u64) {
        self.insert_hashed(self.hash(owner), version);
    }

    pub(super) fn insert_hashed(&self, hash: u64, version: u64) {
        let mut plain = lock_unpoisoned(&self.plain);
        if plain.len() >= BODIES_LIMIT {
            plain.clear();
        }
        plain.insert(hash, version);
    }

    pub(super) fn insert(&self, owner: Owner, version: u64, head: Option<Arc<Head>>) {
        let Some(head) = head else {
            self.insert_plain(owner.by_ref(), version);
            lock_unpoisoned(&self.heads).remove(&owner);
            return;
        };
        lock_unpoisoned(&self.plain).remove(&self.hash(owner.by_ref()));
        let mut heads = lock_unpoisoned(&self.heads);
        if heads.len() >= HEADS_LIMIT {
            heads.clear();
        }
        heads.insert(owner, (version, head));
    }

    pub(super) fn forget(&self, owner: &Owner) {
        self.forget_plain(owner.by_ref());
        lock_unpoisoned(&self.heads).remove(owner);
    }

    pub(super) fn forget_plain(&self, owner: OwnerRef<'_>) {
        lock_unpoisoned(&self.plain).remove(&self.hash(owner));
    }

    /// Returns the version at which the body of `owner` was last seen, if it is not paged.
    pub(super) fn plain(&self, owner: OwnerRef<'_>) -> Option<u64> {
        lock_unpoisoned(&self.plain).get(&self.hash(owner)).copied()
    }

    pub(super) fn stored(&self, owner: &Owner) -> Option<Stored> {
        if let Some(version) = self.plain(owner.by_ref()) {
            return Some((version, None));
        }
        let heads = lock_unpoisoned(&self.heads);
        heads.get(owner).map(|(version, head)| (*version, Some(head.clone())))
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
