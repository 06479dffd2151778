//! Reads of documents for decisions.

use std::collections::BTreeMap;
use store::{Document, Key, Read, Store};

/// The documents of `keys`, absent ones included.
///
/// # Errors
/// The store's.
pub(crate) async fn fetch(
    store: &dyn Store,
    keys: Vec<Key>,
) -> Result<BTreeMap<Key, Option<Document>>, store::Error> {
    let found = store.documents_of(&keys).await?;
    Ok(keys.into_iter().zip(found).collect())
}

/// Whether every one of `reads` is still so.
///
/// # Errors
/// The store's.
pub(crate) async fn are_unchanged(store: &dyn Store, reads: &[Read]) -> Result<bool, store::Error> {
    let keys: Vec<Key> = reads.iter().map(|read| read.key.clone()).collect();
    let found = store.documents_of(&keys).await?;
    let versions = found.into_iter().map(|found| found.map(|document| document.version));
    Ok(versions.eq(reads.iter().map(|read| read.version)))
}
