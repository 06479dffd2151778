//! Reads of documents for decisions.

use std::collections::BTreeMap;
use store::{Document, Key, Read, Store};

/// Returns the documents of `keys`, including absent ones.
///
/// # Errors
/// Returns the store's error.
pub(crate) async fn fetch(
    store: &dyn Store,
    keys: Vec<Key>,
) -> Result<BTreeMap<Key, Option<Document>>, store::Error> {
    let found = store.documents_of(&keys).await?;
    Ok(keys.into_iter().zip(found).collect())
}

/// Returns true if every one of `reads` is unchanged.
///
/// # Errors
/// Returns the store's error.
pub(crate) async fn are_unchanged(store: &dyn Store, reads: &[Read]) -> Result<bool, store::Error> {
    let keys: Vec<Key> = reads.iter().map(|read| read.key.clone()).collect();
    let found = store.documents_of(&keys).await?;
    let versions = found.into_iter().map(|found| found.map(|document| document.version));
    Ok(versions.eq(reads.iter().map(|read| read.version)))
}
