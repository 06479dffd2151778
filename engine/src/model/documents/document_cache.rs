//! A cache of parsed documents, so that large ones are not parsed again for every decision.
//!
//! A store never assigns a version twice, so the parsed value of a version stays valid. Values of pending writes are
//! stored with their bytes, and are used for a document only if its bytes are equal.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use store::{Document, Key, Sequence};

/// Smaller documents, in bytes, are parsed as fast as they are looked up.
const MIN_DOCUMENT_SIZE: usize = 1 << 10;
/// The most values cached by version. At this size the cache is cleared.
const MAX_READ: usize = 256;
/// The most values cached by pending write, with their bytes.
const MAX_WRITTEN: usize = 32;

type Value = Arc<dyn Any + Send + Sync>;

/// The values parsed lately, by document. Belongs to one store.
#[derive(Clone, Default)]
pub(crate) struct DocumentCache(Arc<Mutex<CachedValues>>);

#[derive(Default)]
struct CachedValues {
    read: HashMap<Key, (Sequence, Value)>,
    written: HashMap<Key, (Vec<u8>, Value)>,
}

impl DocumentCache {
    /// Returns the cached value of this version of a document, if it was parsed as a `T`.
    pub(crate) fn get<T: Send + Sync + 'static>(&self, document: &Document) -> Option<Arc<T>> {
        if document.body.len() < MIN_DOCUMENT_SIZE {
            return None;
        }
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = kept.read.get(&document.key).filter(|(version, _)| *version == document.version);
        let value = match read {
            Some((_, value)) => value.clone(),
            None => {
                let (body, value) = kept.written.get(&document.key)?;
                if *body != document.body {
                    return None;
                }
                let value = value.clone();
                kept.written.remove(&document.key);
                kept.insert(document, value.clone());
                value
            }
        };
        drop(kept);
        value.downcast::<T>().ok()
    }

    /// Caches the value of a document.
    pub(crate) fn insert<T: Send + Sync + 'static>(&self, document: &Document, value: &Arc<T>) {
        if document.body.len() < MIN_DOCUMENT_SIZE {
            return;
        }
        let value: Value = Arc::<T>::clone(value);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(document, value);
    }

    /// Caches the value that was encoded as `body`, which may be committed as the document `key`.
    pub(crate) fn keep_written<T: Send + Sync + 'static>(&self, key: &Key, body: &[u8], value: &Arc<T>) {
        if body.len() < MIN_DOCUMENT_SIZE {
            return;
        }
        let value: Value = Arc::<T>::clone(value);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.written.len() >= MAX_WRITTEN {
            kept.written.clear();
        }
        kept.written.insert(key.clone(), (body.to_vec(), value));
    }
}

impl CachedValues {
    fn insert(&mut self, document: &Document, value: Value) {
        if self.read.len() >= MAX_READ {
            self.read.clear();
        }
        self.read.insert(document.key.clone(), (document.version, value));
    }
}

impl fmt::Debug for DocumentCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parsed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_not_cached() {
        let parsed = DocumentCache::default();
        let body = vec![b' '; MIN_DOCUMENT_SIZE];
        let document = |version| Document {
            key: Key::new("things", "a"),
            version: Sequence(version),
            body: body.clone(),
        };
        parsed.insert(&document(1), &Arc::new("one".to_owned()));

        assert_eq!(parsed.get::<String>(&document(1)).as_deref().map(String::as_str), Some("one"));
        assert_eq!(parsed.get::<String>(&document(2)), None);
        assert_eq!(parsed.get::<u64>(&document(1)), None, "another type is parsed again");
    }

    #[test]
    fn a_pending_write_is_used_only_for_a_document_with_equal_bytes() {
        let parsed = DocumentCache::default();
        let key = Key::new("things", "a");
        let document = |version, byte| Document {
            key: key.clone(),
            version: Sequence(version),
            body: vec![byte; MIN_DOCUMENT_SIZE],
        };
        parsed.keep_written(&key, &document(0, b'a').body, &Arc::new("mine".to_owned()));

        assert_eq!(parsed.get::<String>(&document(7, b'b')), None, "another writer wrote other bytes");
        assert_eq!(parsed.get::<String>(&document(8, b'a')).as_deref().map(String::as_str), Some("mine"));
        assert_eq!(
            parsed.get::<String>(&document(9, b'a')),
            None,
            "after the first use, the version decides"
        );
    }
}
