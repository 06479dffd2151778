//! The terms of a record: the rows of the index by which a search finds it.
//!
//! `0xF1 | field NUL | value NUL | execution 16`, with an empty value. Terms are neither in the journal nor in
//! snapshots: the index derives them from each record that it applies, in the same batch. If a record's row is
//! missing or unreadable, some of its terms may remain, so a search also checks the record. A term is never missing.

use super::{codec, key};
use crate::{ExecutionId, Record, Timestamp};
use std::collections::BTreeSet;
use xxhash_rust::xxh3::xxh3_64;

/// Longer values, in bytes, are cut and distinguished by a hash.
const VALUE_BYTES: usize = 200;
/// The field of the hour of the last commit; no attribute has such a name.
pub(crate) const UPDATED: &str = "~updated";
const HOUR_MS: u64 = 3_600_000;

/// Returns the hour of `at` as in terms: they sort by time.
pub(crate) fn hour(at: Timestamp) -> String {
    format!("{:08}", at.0 / HOUR_MS)
}

/// `field`'s part of the keys of its terms.
pub(crate) fn for_field(field: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(field.len() + 64);
    key.push(key::INDEX_KEY);
    key.extend_from_slice(field.as_bytes());
    key.push(0);
    key
}

/// Returns the common prefix of the terms of all records that have `value` in `field`.
pub(crate) fn for_value(field: &str, value: &str) -> Vec<u8> {
    let mut key = for_field(field);
    key.extend_from_slice(&bounded_value(value));
    key.push(0);
    key
}

/// Returns the value as in a key: unchanged, or cut and with the hash of the full value.
fn bounded_value(value: &str) -> Vec<u8> {
    let bytes = value.as_bytes();
    let plain = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    if plain == bytes.len() && plain <= VALUE_BYTES {
        return bytes.to_vec();
    }
    let mut stem: Vec<u8> = bytes.iter().take(plain.min(VALUE_BYTES)).copied().collect();
    stem.extend_from_slice(format!("\u{1}{:016x}", xxh3_64(bytes)).as_bytes());
    stem
}

/// Returns the common prefix of the terms of values that begin with `with`.
pub(crate) fn bounded_prefix(with: &str) -> Vec<u8> {
    with.bytes().take_while(|byte| *byte != 0).take(VALUE_BYTES).collect()
}

/// The keys of the terms of `record`.
pub(crate) fn for_record(record: &Record) -> BTreeSet<Vec<u8>> {
    let columns = [
        ("workflow", &record.workflow),
        ("state", &record.state),
        ("phase", &record.phase),
        ("subject", &record.subject),
        ("requested_by", &record.requested_by),
    ];
    let columns = columns.into_iter().map(|(field, value)| for_value(field, value));
    let reason = record.reason.iter().map(|reason| for_value("reason", reason));
    let updated = for_value(UPDATED, &hour(record.updated_at));
    let attributes = record.attributes.iter();
    let attributes =
        attributes.flat_map(|(field, values)| values.iter().map(|value| for_value(field, value)));
    let all = columns.chain(reason).chain([updated]).chain(attributes);
    let of_id = |mut key: Vec<u8>| {
        key.extend_from_slice(record.id.as_bytes());
        key
    };
    all.map(of_id).collect()
}

/// The keys of the terms of a stored record; none if it cannot be read.
pub(crate) fn for_stored(key: &[u8], value: Option<&[u8]>) -> BTreeSet<Vec<u8>> {
    let record = value.and_then(|value| codec::record_and_body(key, value).ok());
    record.map(|(record, _)| for_record(&record)).unwrap_or_default()
}

/// The execution that a key ends in, if it begins with `prefix`.
pub(crate) fn execution_after(prefix: &[u8], key: &[u8]) -> Option<ExecutionId> {
    key.strip_prefix(prefix)?.try_into().ok().map(ExecutionId::from_bytes)
}
