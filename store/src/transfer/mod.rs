//! A store on its way to another place: export, import, and the check of one in its folder.
//!
//! An export is text, one JSON object per line, readable from front to back in one go and closed by a digest: a
//! header, one line per record, history entry, task and document in the order of their keys, and a trailer with
//! counts and the SHA-256 of everything before it. Versions, revisions and sequences are kept. Leases are not
//! exported: tasks in flight arrive as due, with their deliveries. `docs/store.md` describes the format.

#[cfg(feature = "embedded")]
mod check;
#[cfg(feature = "embedded")]
mod export;
#[cfg(feature = "embedded")]
mod import;
pub(crate) mod line;
pub(crate) mod reader;
pub(crate) mod writer;

#[cfg(feature = "embedded")]
pub use check::{CheckReport, check};
#[cfg(feature = "embedded")]
pub use export::{export, export_folder};
#[cfg(feature = "embedded")]
pub use import::import;
pub use reader::verify;

use std::fmt;

/// The number of moved items of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Execution records.
    pub records: u64,
    /// History entries.
    pub entries: u64,
    /// Tasks.
    pub tasks: u64,
    /// Documents.
    pub documents: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { records, entries, tasks, documents } = self;
        write!(f, "{records} records, {entries} history entries, {tasks} tasks, {documents} documents")
    }
}

/// The future of an exported store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// It continues to work. The imported copy is held.
    KeepsRunning,
    /// It is held from the end of the export on; the imported copy continues its work.
    Replaced,
}
