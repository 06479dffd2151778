//! Blocks: groups of rows that the index stores as one row of sled.
//!
//! sled stores at most sixteen rows on a page, and rewrites a page with every tenth change. If each row were a row of
//! sled, a page would have a kilobyte or two, and most writes would be repeated pages. A block holds the rows of one
//! kind between its key and the key of the next block. The key of the first block is the byte of the kind; any other
//! key was the first row when the block was split, and stays when rows change. `packed u8 | rows bytes u32 | rows`,
//! packed by LZ4 if that is shorter; a row is `key bytes u16 | key | value bytes u32 | value`.

use crate::embedded::format::bytes::{Cursor, length};

/// A block with more than one row is no longer than this before it is packed, in bytes. Smaller blocks mean more rows
/// for sled, larger ones more rewriting when one row changes.
pub(super) const MOST_BYTES: usize = 4 << 10;
/// The highest length of a block of one row. A damaged length never allocates more.
const LIMIT: usize = 1 << 20;
/// The size of a row in addition to its key and value, in bytes.
const FRAME: usize = 6;

/// A key and its value.
pub(super) type Row<'a> = (&'a [u8], &'a [u8]);
/// A key and its new value; `None` deletes.
pub(super) type Change<'a> = (&'a [u8], Option<&'a [u8]>);

fn size((key, value): &Row<'_>) -> usize {
    key.len().saturating_add(value.len()).saturating_add(FRAME)
}

/// Bytes of keys and values, as counted in the statistics.
pub(super) fn live(rows: &[Row<'_>]) -> u64 {
    rows.iter().map(|(key, value)| key.len().saturating_add(value.len()) as u64).sum()
}

/// The bytes of a block of `rows`, as sled has them.
pub(super) fn seal(rows: &[Row<'_>]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(rows.iter().map(size).sum());
    for (key, value) in rows {
        plain.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_le_bytes());
        plain.extend_from_slice(key);
        plain.extend_from_slice(&length(value.len()).to_le_bytes());
        plain.extend_from_slice(value);
    }
    let packed = lz4_flex::block::compress(&plain);
    let is_shorter = packed.len() < plain.len();
    let payload = if is_shorter { &packed } else { &plain };
    let mut sealed = Vec::with_capacity(payload.len().saturating_add(5));
    sealed.push(u8::from(is_shorter));
    sealed.extend_from_slice(&length(plain.len()).to_le_bytes());
    sealed.extend_from_slice(payload);
    sealed
}

/// Returns the rows of a block as bytes, for [`rows`].
///
/// # Errors
/// Returns why it is not a block.
pub(super) fn open(sealed: &[u8]) -> Result<Vec<u8>, &'static str> {
    let mut cursor = Cursor::new(sealed);
    let (Some(packed), Some(bytes)) = (cursor.u8(), cursor.u32()) else { return Err("it is too short") };
    let bytes = usize::try_from(bytes).ok().filter(|bytes| *bytes <= LIMIT).ok_or("its length is invalid")?;
    let payload = cursor.rest();
    let plain = match packed {
        0 => payload.to_vec(),
        1 => lz4_flex::block::decompress(payload, bytes).map_err(|_| "it cannot be unpacked")?,
        _ => return Err("a newer version wrote it"),
    };
    if plain.len() == bytes { Ok(plain) } else { Err("it is not as long as it says") }
}

/// Parses the rows that [`open`] returned.
///
/// # Errors
/// Returns why it is malformed.
pub(super) fn rows(plain: &[u8]) -> Result<Vec<Row<'_>>, &'static str> {
    let mut cursor = Cursor::new(plain);
    let mut rows = Vec::new();
    while !cursor.is_empty() {
        let key = cursor.u16().and_then(|bytes| cursor.take(usize::from(bytes)));
        let value = cursor.u32().and_then(|bytes| cursor.take(usize::try_from(bytes).ok()?));
        rows.push(key.zip(value).ok_or("a row of it is cut off")?);
    }
    Ok(rows)
}

/// The value of `key` among `rows`.
pub(super) fn find<'a>(rows: &[Row<'a>], key: &[u8]) -> Option<&'a [u8]> {
    let at = rows.binary_search_by(|(of, _)| (*of).cmp(key)).ok()?;
    rows.get(at).map(|(_, value)| *value)
}

/// Returns `had` with `changes` applied; both are in the order of keys.
pub(super) fn changed<'a>(had: &[Row<'a>], changes: &[Change<'a>]) -> Vec<Row<'a>> {
    let mut rows = Vec::with_capacity(had.len().saturating_add(changes.len()));
    let mut had = had.iter().copied().peekable();
    for (key, value) in changes {
        while let Some(row) = had.next_if(|(of, _)| of < key) {
            rows.push(row);
        }
        had.next_if(|(of, _)| of == key);
        rows.extend(value.map(|value| (*key, value)));
    }
    rows.extend(had);
    rows
}

/// Splits `rows` into parts that are blocks. If rows only `grow` at their end, each part is as full as possible;
/// otherwise parts have room for later rows.
pub(super) fn cut<'a, 'b>(rows: &'b [Row<'a>], grow: bool) -> Vec<&'b [Row<'a>]> {
    let total: usize = rows.iter().map(size).sum();
    let fill = match total.div_ceil(MOST_BYTES) {
        0 | 1 => MOST_BYTES,
        _ if grow => MOST_BYTES,
        parts => total.div_ceil(parts).saturating_add(MOST_BYTES / 8).min(MOST_BYTES),
    };
    let (mut parts, mut rest) = (Vec::new(), rows);
    while !rest.is_empty() {
        let mut bytes = 0_usize;
        let fits = rest.iter().take_while(|row| {
            bytes = bytes.saturating_add(size(row));
            bytes <= fill
        });
        let (part, behind) = rest.split_at_checked(fits.count().max(1)).unwrap_or((rest, &[]));
        parts.push(part);
        rest = behind;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    type Owned = BTreeMap<Vec<u8>, Vec<u8>>;

    fn rows_strategy() -> impl Strategy<Value = Owned> {
        let key = prop::collection::vec(0..4_u8, 1..6);
        prop::collection::btree_map(key, prop::collection::vec(any::<u8>(), 0..900), 0..40)
    }

    fn borrowed(rows: &Owned) -> Vec<Row<'_>> {
        rows.iter().map(|(key, value)| (key.as_slice(), value.as_slice())).collect()
    }

    proptest! {
        #[test]
        fn a_block_returns_the_rows_that_were_put_into_it(kept in rows_strategy()) {
            let plain = open(&seal(&borrowed(&kept))).unwrap();
            let found = rows(&plain).unwrap();
            prop_assert_eq!(&found, &borrowed(&kept));
            for (key, value) in &kept {
                prop_assert_eq!(find(&found, key), Some(value.as_slice()));
            }
            prop_assert_eq!(find(&found, &[9]), None);
        }

        #[test]
        fn a_changed_block_equals_a_changed_map(kept in rows_strategy(), puts in rows_strategy(), gone in rows_strategy()) {
            let mut expected = kept.clone();
            let mut changes: BTreeMap<&[u8], Option<&[u8]>> = BTreeMap::new();
            for key in gone.keys() {
                expected.remove(key);
                changes.insert(key, None);
            }
            for (key, value) in &puts {
                expected.insert(key.clone(), value.clone());
                changes.insert(key, Some(value));
            }
            let changes: Vec<_> = changes.into_iter().collect();
            prop_assert_eq!(changed(&borrowed(&kept), &changes), borrowed(&expected));
        }

        #[test]
        fn the_parts_of_a_split_block_have_all_rows_and_fit_into_blocks(kept in rows_strategy(), grow in any::<bool>()) {
            let all = borrowed(&kept);
            let parts = cut(&all, grow);
            prop_assert_eq!(&parts.concat(), &all);
            for part in parts {
                prop_assert!(part.len() == 1 || part.iter().map(size).sum::<usize>() <= MOST_BYTES);
            }
        }

        #[test]
        fn invalid_bytes_are_refused_as_a_block(mut sealed in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = open(&sealed).map(|plain| rows(&plain).map(|rows| rows.len()));
            if let Some(packed) = sealed.first_mut() {
                *packed = 1;
                let _ = open(&sealed).map(|plain| rows(&plain).map(|rows| rows.len()));
            }
        }
    }

    #[test]
    fn growing_rows_make_full_blocks_and_changing_rows_leave_room() {
        let value = [7; 250];
        let keys: Vec<[u8; 2]> = (0..64_u16).map(u16::to_be_bytes).collect();
        let all: Vec<Row<'_>> = keys.iter().map(|key| (key.as_slice(), value.as_slice())).collect();
        let counts = |rows, grow| cut(rows, grow).iter().map(|part| part.len()).collect::<Vec<_>>();
        assert_eq!(counts(&all, true), [15, 15, 15, 15, 4]);
        assert_eq!(counts(&all[..16], true), [15, 1]);
        assert_eq!(counts(&all[..16], false), [9, 7]);
    }
}
