//! The wrapper of every stored value, by which a torn or foreign value is recognised.
//!
//! `magic u8 | kind u8 | schema u16 | codec u8 | flags u8 | length u32 | crc32c u32 | payload`, integers
//! little-endian. The checksum covers the key, the ten bytes before it and the payload, so that a value under a wrong
//! key is also refused. This layout is never changed (ADR 0003).

use super::bytes::Cursor;

const MAGIC: u8 = 0xA7;
/// Length of the wrapper before the payload, in bytes.
pub(crate) const HEADER: usize = 14;
/// The schema of payloads, except for kinds that have a newer one.
pub(crate) const SCHEMA: u16 = 1;
/// The newest codec: bincode 2, standard configuration, for the head; the body follows as it is.
const CODEC_BINCODE: u8 = 0;

/// The kinds of values, pinned by number: append only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Record = 1,
    Entry = 2,
    Task = 3,
    Document = 4,
    Guard = 5,
    Open = 6,
    Tenant = 7,
    Meta = 8,
    Order = 9,
}

/// Appends the value of `key` to `out`: the wrapper, then what `payload` writes.
pub(crate) fn seal<E>(
    out: &mut Vec<u8>,
    key: &[u8],
    kind: Kind,
    payload: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    seal_as(out, key, kind, SCHEMA, payload)
}

/// Appends a value of another schema.
pub(crate) fn seal_as<E>(
    out: &mut Vec<u8>,
    key: &[u8],
    kind: Kind,
    schema: u16,
    payload: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
) -> Result<(), E> {
    let start = out.len();
    out.extend_from_slice(&[MAGIC, kind as u8]);
    out.extend_from_slice(&schema.to_le_bytes());
    out.extend_from_slice(&[CODEC_BINCODE, 0]);
    out.extend_from_slice(&[0; 8]);
    let body = out.len();
    payload(out)?;
    let length = u32::try_from(out.len().saturating_sub(body)).unwrap_or(u32::MAX);
    set(out, start.saturating_add(6), length);
    let crc = checksum(
        key,
        out.get(start..start.saturating_add(10)).unwrap_or_default(),
        out.get(body..).unwrap_or_default(),
    );
    set(out, start.saturating_add(10), crc);
    Ok(())
}

fn set(out: &mut [u8], at: usize, number: u32) {
    if let Some(place) = out.get_mut(at..at.saturating_add(4)) {
        place.copy_from_slice(&number.to_le_bytes());
    }
}

fn checksum(key: &[u8], header: &[u8], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c_append(crc32c::crc32c(key), header), payload)
}

/// Unwraps the value of `key`, which must be of `kind`.
///
/// # Errors
/// Returns why it is not a complete value of that kind, as the end of a sentence.
pub(crate) fn open<'a>(key: &[u8], kind: Kind, value: &'a [u8]) -> Result<&'a [u8], String> {
    open_upto(key, kind, SCHEMA, value).map(|(_, payload)| payload)
}

/// Unwraps a value of a kind with several schemas, the newest of them `newest`. Returns its schema.
///
/// # Errors
/// Same as [`open`].
pub(crate) fn open_upto<'a>(
    key: &[u8],
    kind: Kind,
    newest: u16,
    value: &'a [u8],
) -> Result<(u16, &'a [u8]), String> {
    let mut cursor = Cursor::new(value);
    let (magic, found) = (cursor.u8(), cursor.u8());
    let (schema, codec, flags) = (cursor.u16(), cursor.u8(), cursor.u8());
    let (length, crc) = (cursor.u32(), cursor.u32());
    let (Some(MAGIC), Some(found), Some(schema), Some(codec), Some(flags), Some(length), Some(crc)) =
        (magic, found, schema, codec, flags, length, crc)
    else {
        return Err("it is incomplete, or was not written by Tenure".into());
    };
    let payload = cursor.rest();
    if usize::try_from(length) != Ok(payload.len()) {
        return Err(format!("its length should be {length} bytes, but is {}", payload.len()));
    }
    if checksum(key, value.get(..10).unwrap_or_default(), payload) != crc {
        return Err("its checksum does not match".into());
    }
    if !(SCHEMA..=newest).contains(&schema) || codec != CODEC_BINCODE || flags != 0 {
        return Err(format!(
            "schema {schema}, codec {codec}, flags {flags}: written by a newer version of Tenure"
        ));
    }
    if found != kind as u8 {
        return Err(format!("it is of kind {found} instead of {kind:?}"));
    }
    Ok((schema, payload))
}
