//! The commit path: gathers requests, and loads, checks and writes a batch in one transaction.
//!
//! Run by one task per process. Invariant: a batch is decided and written under the lock of the `head` row.

mod batch;
mod load;
pub(super) mod partitions;
pub(super) mod save;
pub(super) mod writer;

/// The holder of this row lock commits; all others wait.
pub(super) const LOCK: &str = "SELECT sequence FROM head FOR UPDATE";
