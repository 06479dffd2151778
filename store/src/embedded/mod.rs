//! The embedded store: a synced journal of commits, and sled behind it as the index.
//!
//! A commit is acknowledged once its frame in the journal is on the device; nothing else is synced on that path. The
//! index follows, and can be rebuilt at any time from the last snapshot and the journal. Threads: one writes the
//! journal, one prepares its files, one updates the index, one writes checkpoints, one monitors the others, and some
//! read. `docs/store.md` describes formats, damage and limits, ADR 0002 and 0003 the reasons.

pub(crate) mod commit;
mod event;
mod faults;
pub(crate) mod folder;
pub(crate) mod format;
mod handle;
pub(crate) mod index;
pub(crate) mod journal;
pub(crate) mod maintenance;
mod memtable;
pub(crate) mod open;
mod open_report;
mod options;
mod reads;
mod recovery;
mod search;
pub(crate) mod shared;
pub(crate) mod snapshot;
mod store;
mod tasks;
pub(crate) mod threads;

pub use faults::{Faults, Hook};
pub use handle::{Embedded, Opened};
pub use open_report::Report;
pub use options::{FreeSpace, OnStall, Options};

/// Marks a folder with an unfinished import.
pub(crate) const IMPORTING: &str = "IMPORTING";
