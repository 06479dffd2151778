//! The stored form of rows: keys, values, their checksums, and the keys of the secondary index.
//!
//! Used by the journal, the index and snapshots. Invariant: a format that was ever released stays readable (ADR
//! 0003).

pub(crate) mod bytes;
pub(crate) mod codec;
pub(crate) mod envelope;
pub(crate) mod index_keys;
pub(crate) mod key;
