//! Reads whole collections that are always small: groups and delegations.

use engine::Entity;
use serde::de::DeserializeOwned;
use store::{Document, Store};

/// Returns all documents of a type.
///
/// # Errors
/// An error of the store.
pub(crate) async fn all<T: Entity + DeserializeOwned>(store: &dyn Store) -> Result<Vec<T>, store::Error> {
    let (mut found, mut after): (Vec<T>, Option<String>) = (Vec::new(), None);
    loop {
        let page = store.documents(T::COLLECTION, "", after.as_deref(), 1_000).await?;
        for document in &page.items {
            found.push(read(document)?);
        }
        after = page.next;
        if after.is_none() {
            return Ok(found);
        }
    }
}

fn read<T: DeserializeOwned>(document: &Document) -> Result<T, store::Error> {
    let corrupt =
        |e: serde_json::Error| store::Error::Corrupt { what: document.key.to_string(), why: e.to_string() };
    serde_json::from_slice(&document.body).map_err(corrupt)
}
