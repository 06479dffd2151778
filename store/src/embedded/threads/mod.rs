//! The background threads of a store: they prepare segments, feed the index, write checkpoints, read, and watch the others.
//!
//! Started by `open.rs`. Invariant: none of them acknowledges a commit.

pub(crate) mod checkpoint;
pub(crate) mod indexer;
pub(crate) mod monitor;
pub(crate) mod readers;
pub(crate) mod segment_preparer;
