//! The names of the pages of large bodies, see `paged`.
//!
//! They are here because [`encrypted`](crate::encrypted) encrypts a page of a record with the key of that record.

use crate::{ExecutionId, Key};

/// The collection of the pages of all records and documents.
pub const PAGES: &str = "pages";
/// How the ids of the pages of records begin; the execution follows, and a slash.
pub(crate) const PAGES_OF_RECORD: &str = "record/";

/// Returns the execution whose record a page is a part of, or `None` for other documents.
pub(crate) fn execution_of(key: &Key) -> Option<ExecutionId> {
    if key.collection != PAGES {
        return None;
    }
    let (id, _) = key.id.strip_prefix(PAGES_OF_RECORD)?.split_once('/')?;
    id.parse().ok()
}
