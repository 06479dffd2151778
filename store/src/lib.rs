//! The storage of Tenure: the data types, and the one commit that changes them.
//!
//! A [`Store`] has execution [`Record`]s, their journal [`Entry`]s, due [`Task`]s, and [`Document`]s (the ledger).
//! Only [`Store::commit`] changes them: a [`Commit`] is applied completely or not at all, and is on disk before it is
//! acknowledged. Two implementations are here: [`Memory`], the reference semantics, and [`Embedded`], a synced
//! journal with sled as the index behind it. Both pass [`conformance`].
//!
//! This crate knows no workflow and no tenant; the engine defines the meaning of records.

pub mod conformance;
#[cfg(feature = "embedded")]
mod embedded;
pub mod encrypted;
pub mod hex;
mod memory;
mod model;
pub mod paged;
#[cfg(feature = "postgres")]
pub mod postgres;
mod random;
mod sync;
#[cfg(test)]
#[cfg(feature = "embedded")]
mod tests;
#[cfg(any(feature = "embedded", feature = "postgres"))]
pub mod transfer;

#[cfg(feature = "embedded")]
pub use embedded::{Embedded, Faults, FreeSpace, Hook, OnStall, Opened, Options, Report};
pub use memory::Memory;
pub use model::commit::{Commit, Erase, Receipt, Settle, Write};
pub use model::composite_key::CompositeKey;
pub use model::error::{Error, Fault};
pub use model::filter::Filter;
pub use model::health::Health;
pub use model::histogram::Histogram;
pub use model::id::{Epoch, ExecutionId, ParseIdError, Revision, Sequence, Timestamp};
pub use model::limits::{
    ATTRIBUTES_LIMIT, BODY_LIMIT, COMMIT_LIMIT, ERASE_LIMIT, NAME_LIMIT, PART_BYTES, TEXT_LIMIT,
};
pub use model::maintenance::Hold;
pub use model::page::{History, Page};
pub use model::query::{COLUMNS, Found, Query};
pub use model::record::{Attributes, Document, Entry, Key, Lease, Put, Read, Record, Task, TaskId};
pub use model::store::{SEARCH_SCAN_LIMIT, Store};
