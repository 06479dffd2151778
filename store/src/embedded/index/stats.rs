//! The statistics of the index, stored in the same batch as every change.

use crate::{
    Error, Sequence,
    embedded::format::{
        bytes::Cursor,
        envelope::{self, HEADER, Kind},
        key,
    },
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_128_with_seed};

/// The progress and the content of the index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexStats {
    /// Every commit up to this one is in the index.
    pub(crate) applied: Sequence,
    /// No commit after this one has touched it.
    pub(crate) touched: Sequence,
    /// How often the store had been opened.
    pub(crate) opens: u64,
    /// Rows of sled, without this one.
    pub(crate) rows: u64,
    /// Bytes of their keys and values.
    pub(crate) bytes: u64,
    /// Bytes of the keys and values in them, unpacked.
    pub(crate) live: u64,
    /// The sum of a hash of each row: the same for the same rows in whatever order they came.
    pub(crate) digest: u128,
}

fn hash(key: &[u8], value: &[u8]) -> u128 {
    xxh3_128_with_seed(value, xxh3_64(key))
}

fn size(key: &[u8], value: &[u8]) -> u64 {
    key.len().saturating_add(value.len()) as u64
}

impl IndexStats {
    pub(crate) fn add(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(size(key, value));
        self.digest = self.digest.wrapping_add(hash(key, value));
    }

    /// Adds the rows that `other` counted.
    pub(crate) fn join(&mut self, other: &Self) {
        self.rows = self.rows.wrapping_add(other.rows);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.digest = self.digest.wrapping_add(other.digest);
    }

    pub(crate) fn subtract(&mut self, key: &[u8], value: &[u8]) {
        self.rows = self.rows.wrapping_sub(1);
        self.bytes = self.bytes.wrapping_sub(size(key, value));
        self.digest = self.digest.wrapping_sub(hash(key, value));
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER + 64);
        let sealed = envelope::seal::<Error>(&mut out, key::META, Kind::Meta, |out| {
            for number in [self.applied.0, self.touched.0, self.opens, self.rows, self.bytes, self.live] {
                out.extend_from_slice(&number.to_le_bytes());
            }
            out.extend_from_slice(&self.digest.to_le_bytes());
            Ok(())
        });
        debug_assert!(sealed.is_ok(), "only numbers are written");
        out
    }

    pub(crate) fn decode(value: &[u8]) -> Result<Self, String> {
        let payload = envelope::open(key::META, Kind::Meta, value)?;
        let mut cursor = Cursor::new(payload);
        let mut read = || {
            Some(Self {
                applied: Sequence(cursor.u64()?),
                touched: Sequence(cursor.u64()?),
                opens: cursor.u64()?,
                rows: cursor.u64()?,
                bytes: cursor.u64()?,
                live: cursor.u64()?,
                digest: cursor.u128()?,
            })
        };
        read().ok_or_else(|| "it is too short".into())
    }

    /// Returns true if both describe the same rows.
    pub(crate) fn same_rows(&self, other: &Self) -> bool {
        (self.rows, self.bytes, self.digest) == (other.rows, other.bytes, other.digest)
    }
}
