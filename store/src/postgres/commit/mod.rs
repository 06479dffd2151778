//! The commit path: gathers requests, and loads, checks and writes a batch in one transaction.
//!
//! Run by one task per process. Invariant: a batch is decided and written under the lock of the `head` row.

pub(crate) mod batch;
pub(crate) mod load;
pub(crate) mod partitions;
pub(crate) mod save;
pub(crate) mod writer;
