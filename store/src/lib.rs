//! Durable nouns of Tenure and the one verb that changes them.
//!
//! A [`Store`] keeps execution [`Record`]s, their journal [`Entry`]s, the [`Task`]s that are due, and
//! [`Document`]s (the ledger), and changes them by [`Store::commit`] alone: all of a [`Commit`] or none of it, on
//! disk before it is acknowledged. Two implementations live here: [`Memory`], the reference semantics, and
//! [`Embedded`], a synced journal with sled as the index behind it. Both pass [`conformance`].
//!
//! This crate knows no workflow and no tenant; what a record means is the engine's affair.

pub mod conformance;
mod embedded;
mod error;
mod hex;
mod hold;
mod id;
mod limits;
mod memory;
pub mod postgres;
mod query;
mod random;
mod record;
pub mod sealed;
mod store;
mod tally;
#[cfg(test)]
mod tests;
pub mod transfer;

pub use embedded::{Embedded, Faults, FreeSpace, Hook, OnStall, Opened, Options, Report};
pub use error::Error;
pub use hold::Hold;
pub use id::{Epoch, ExecutionId, ParseIdError, Revision, Sequence, Timestamp};
pub use limits::{
    ATTRIBUTES_LIMIT, BODY_LIMIT, COMMIT_LIMIT, ERASE_LIMIT, NAME_LIMIT, PART_BYTES, TEXT_LIMIT,
};
pub use memory::Memory;
pub use query::{Attributes, COLUMNS, Found, Query};
pub use record::{Document, Entry, Key, Lease, Put, Read, Record, Task, TaskId};
pub use store::{Commit, Erase, Filter, Health, History, Page, Receipt, SEARCH_LOOKS, Settle, Store, Write};
pub use tally::Tally;
