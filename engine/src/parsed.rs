//! Documents as values, kept so that the large ones are not parsed again for every decision.
//!
//! A document's version is never given twice by one store, so what was parsed of a version stays true. Only what was read
//! is kept, never what is about to be written: a value that does not survive being stored is seen as it was stored.

use std::{
    any::Any,
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use store::{Document, Key, Sequence};

/// Smaller documents are parsed as fast as they are looked up, in bytes.
const SMALLEST: usize = 1 << 10;
/// When so many are kept, all are forgotten: the heads that matter come back with the next decision.
const MOST: usize = 256;

type Value = Arc<dyn Any + Send + Sync>;

/// What was parsed lately, by document. Belongs to one store.
#[derive(Clone, Default)]
pub(crate) struct Parsed(Arc<Mutex<HashMap<Key, (Sequence, Value)>>>);

impl Parsed {
    /// The value of a document, if this very version of it was parsed as a `T`.
    pub(crate) fn get<T: Send + Sync + 'static>(&self, document: &Document) -> Option<Arc<T>> {
        if document.body.len() < SMALLEST {
            return None;
        }
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (version, value) = kept.get(&document.key)?;
        let value = (*version == document.version).then(|| value.clone())?;
        drop(kept);
        value.downcast::<T>().ok()
    }

    /// Keeps the value of a document.
    pub(crate) fn keep<T: Send + Sync + 'static>(&self, document: &Document, value: &Arc<T>) {
        if document.body.len() < SMALLEST {
            return;
        }
        let value: Value = Arc::<T>::clone(value);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.len() >= MOST {
            kept.clear();
        }
        kept.insert(document.key.clone(), (document.version, value));
    }
}

impl fmt::Debug for Parsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Parsed")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_is_another_document() {
        let parsed = Parsed::default();
        let body = vec![b' '; SMALLEST];
        let document = |version| Document {
            key: Key::new("things", "a"),
            version: Sequence(version),
            body: body.clone(),
        };
        parsed.keep(&document(1), &Arc::new("one".to_owned()));

        assert_eq!(parsed.get::<String>(&document(1)).as_deref().map(String::as_str), Some("one"));
        assert_eq!(parsed.get::<String>(&document(2)), None);
        assert_eq!(parsed.get::<u64>(&document(1)), None, "as another kind it is parsed anew");
    }
}
