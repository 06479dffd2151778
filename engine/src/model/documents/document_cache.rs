//! Documents as values, kept so that the large ones are not parsed again for every decision.
//!
//! A document's version is never given twice by one store, so what was parsed of a version stays true. What is about to
//! be written is kept beside its bytes, and stands for a document only if that has the very same: whether it was
//! committed, and by whom, is no matter.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use store::{Document, Key, Sequence};

/// Smaller documents are parsed as fast as they are looked up, in bytes.
const MIN_DOCUMENT_SIZE: usize = 1 << 10;
/// When so many are kept, all are forgotten: the heads that matter come back with the next decision.
const MAX_READ: usize = 256;
/// The same of what is about to be written, whose bytes are kept too.
const MAX_WRITTEN: usize = 32;

type Value = Arc<dyn Any + Send + Sync>;

/// What was parsed lately, by document. Belongs to one store.
#[derive(Clone, Default)]
pub(crate) struct DocumentCache(Arc<Mutex<CachedValues>>);

#[derive(Default)]
struct CachedValues {
    read: HashMap<Key, (Sequence, Value)>,
    written: HashMap<Key, (Vec<u8>, Value)>,
}

impl DocumentCache {
    /// The value of a document, if this very version of it was parsed as a `T`.
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

    /// Keeps the value of a document.
    pub(crate) fn insert<T: Send + Sync + 'static>(&self, document: &Document, value: &Arc<T>) {
        if document.body.len() < MIN_DOCUMENT_SIZE {
            return;
        }
        let value: Value = Arc::<T>::clone(value);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(document, value);
    }

    /// Keeps the value that `body` was made of, which may come to be the document `key`.
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
    fn another_version_is_another_document() {
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
        assert_eq!(parsed.get::<u64>(&document(1)), None, "as another kind it is parsed anew");
    }

    #[test]
    fn what_was_to_be_written_stands_for_a_document_with_the_same_bytes_alone() {
        let parsed = DocumentCache::default();
        let key = Key::new("things", "a");
        let document = |version, byte| Document {
            key: key.clone(),
            version: Sequence(version),
            body: vec![byte; MIN_DOCUMENT_SIZE],
        };
        parsed.keep_written(&key, &document(0, b'a').body, &Arc::new("mine".to_owned()));

        assert_eq!(parsed.get::<String>(&document(7, b'b')), None, "somebody else wrote something else");
        assert_eq!(parsed.get::<String>(&document(8, b'a')).as_deref().map(String::as_str), Some("mine"));
        assert_eq!(parsed.get::<String>(&document(9, b'a')), None, "from then on it goes by the version");
    }
}
