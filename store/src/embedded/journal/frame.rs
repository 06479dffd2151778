//! A frame of the journal: the commits of one sync, as the rows they put and delete.
//!
//! Header, 32 bytes, little-endian:
//! `magic u32 | payload bytes u32 | first sequence u64 | commits u32 | payload crc32c u32 | rows bytes u32 | header crc32c u32`.
//! Rows: for each commit `rows u32`, and for each row `key bytes u16 | key | value bytes u32 | value`, where
//! [`DELETED`] is the length of a missing value. The payload is the rows as one block of LZ4 if that is shorter, and
//! unpacked if `rows bytes` is 0. Frames are padded with zeros to a multiple of 8 bytes, so that a frame behind
//! damage can be found in steps of 8.

use crate::{
    Sequence,
    embedded::format::bytes::{Cursor, length},
};
use std::{ops::Range, sync::Arc};

/// `TNRF`.
const MAGIC: u32 = 0x4652_4E54;
/// Length of a frame's header, in bytes.
pub(crate) const HEADER: usize = 32;
/// The highest compression ratio of an LZ4 block.
const MOST_PACKED: usize = 256;
/// The value length of a deleted row.
const DELETED: u32 = u32::MAX;

/// The header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) payload: usize,
    pub(crate) first: Sequence,
    pub(crate) commits: u32,
    crc: u32,
    /// Length of the packed rows; `None` if they are not packed.
    rows: Option<usize>,
}

impl Header {
    /// Returns the header at the front of `bytes`, if it is complete.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes.get(..HEADER)?);
        let (magic, payload, first) = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
        let (commits, crc, rows, own) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let whole = magic == MAGIC && crc32c::crc32c(bytes.get(..HEADER - 4)?) == own;
        whole.then_some(Self {
            payload: usize::try_from(payload).ok()?,
            first: Sequence(first),
            commits,
            crc,
            rows: if rows == 0 { None } else { Some(usize::try_from(rows).ok()?) },
        })
    }

    fn write(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER);
        bytes.extend_from_slice(&MAGIC.to_le_bytes());
        bytes.extend_from_slice(&length(self.payload).to_le_bytes());
        bytes.extend_from_slice(&self.first.0.to_le_bytes());
        bytes.extend_from_slice(&self.commits.to_le_bytes());
        bytes.extend_from_slice(&self.crc.to_le_bytes());
        bytes.extend_from_slice(&length(self.rows.unwrap_or(0)).to_le_bytes());
        let own = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&own.to_le_bytes());
        bytes
    }

    /// Length of the whole frame with its padding.
    pub(crate) fn frame_bytes(&self) -> usize {
        HEADER.saturating_add(self.payload).next_multiple_of(8)
    }

    /// The last commit of the frame.
    pub(crate) fn last(&self) -> Sequence {
        Sequence(self.first.0.saturating_add(u64::from(self.commits)).saturating_sub(1))
    }

    /// Returns true if `payload` matches this header.
    pub(crate) fn matches(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload && crc32c::crc32c(payload) == self.crc
    }
}

/// A frame that the index lacks.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The bytes as on disk.
    pub(crate) header: Header,
    /// Space for the header, followed by the unpacked rows.
    pub(crate) bytes: Vec<u8>,
}

/// One row of a frame: its commit, its key, and the position of its value.
pub(crate) struct Row<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

impl Frame {
    /// The frame in `bytes`, header included.
    pub(crate) fn new(mut bytes: Vec<u8>) -> Option<Self> {
        let header = Header::read(&bytes)?;
        let end = HEADER.checked_add(header.payload)?;
        let payload = bytes.get(HEADER..end)?;
        if !header.matches(payload) {
            return None;
        }
        let Some(rows) = header.rows else {
            bytes.truncate(end);
            return Some(Self { header, bytes });
        };
        // LZ4 cannot pack to this length, so a longer value is invalid despite its checksums.
        if rows > header.payload.saturating_mul(MOST_PACKED) {
            return None;
        }
        let mut unpacked = vec![0; HEADER.checked_add(rows)?];
        let length = lz4_flex::block::decompress_into(payload, unpacked.get_mut(HEADER..)?).ok()?;
        (length == rows).then_some(Self { header, bytes: unpacked })
    }

    /// Returns the rows in the order in which they take effect. `None` replaces the rest if the content is malformed.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Option<Row<'_>>> {
        Rows {
            cursor: Cursor::new(self.bytes.get(HEADER..).unwrap_or_default()),
            sequence: self.header.first.0,
            left_in_commit: None,
        }
    }
}

struct Rows<'a> {
    cursor: Cursor<'a>,
    sequence: u64,
    left_in_commit: Option<u32>,
}

impl<'a> Rows<'a> {
    fn row(&mut self) -> Option<Row<'a>> {
        let key_bytes = self.cursor.u16()?;
        let key = self.cursor.take(usize::from(key_bytes))?;
        let value = match self.cursor.u32()? {
            DELETED => None,
            bytes => Some(self.cursor.take(usize::try_from(bytes).ok()?)?),
        };
        Some(Row { sequence: Sequence(self.sequence), key, value })
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Option<Row<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            match self.left_in_commit {
                Some(0) => {
                    self.sequence = self.sequence.saturating_add(1);
                    self.left_in_commit = None;
                }
                Some(left) => {
                    self.left_in_commit = Some(left.saturating_sub(1));
                    let row = self.row();
                    if row.is_none() {
                        self.cursor.rest();
                        self.left_in_commit = None;
                    }
                    return Some(row);
                }
                None if self.cursor.is_empty() => return None,
                None => match self.cursor.u32() {
                    Some(rows) => self.left_in_commit = Some(rows),
                    None => {
                        self.cursor.rest();
                        return Some(None);
                    }
                },
            }
        }
    }
}

/// The position of a value in its frame; `None` for a deleted row.
pub(crate) type Place = Option<Range<usize>>;

/// A builder of frames.
pub(crate) struct Builder {
    bytes: Vec<u8>,
    first: Sequence,
    commits: u32,
    rows_at: usize,
    rows: u32,
}

impl Builder {
    pub(crate) fn new(first: Sequence) -> Self {
        let mut bytes = Vec::with_capacity(16 << 10);
        bytes.resize(HEADER, 0);
        Self { bytes, first, commits: 0, rows_at: 0, rows: 0 }
    }

    /// The sequence of the commit that comes next.
    pub(crate) fn next(&self) -> Sequence {
        Sequence(self.first.0.saturating_add(u64::from(self.commits)))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.commits == 0
    }

    pub(crate) fn commits(&self) -> u32 {
        self.commits
    }

    pub(crate) fn begin(&mut self) {
        self.rows_at = self.bytes.len();
        self.rows = 0;
        self.bytes.extend_from_slice(&[0; 4]);
    }

    /// Appends a row and returns the position of its value.
    pub(crate) fn put<E>(
        &mut self,
        key: &[u8],
        value: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Place, E> {
        self.key(key);
        let at = self.bytes.len();
        self.bytes.extend_from_slice(&[0; 4]);
        let start = self.bytes.len();
        value(&mut self.bytes)?;
        let bytes = length(self.bytes.len().saturating_sub(start));
        self.set(at, bytes);
        Ok(Some(start..self.bytes.len()))
    }

    pub(crate) fn delete(&mut self, key: &[u8]) -> Place {
        self.key(key);
        self.bytes.extend_from_slice(&DELETED.to_le_bytes());
        None
    }

    fn key(&mut self, key: &[u8]) {
        self.rows = self.rows.saturating_add(1);
        self.bytes.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_le_bytes());
        self.bytes.extend_from_slice(key);
    }

    fn set(&mut self, at: usize, number: u32) {
        if let Some(place) = self.bytes.get_mut(at..at.saturating_add(4)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }

    /// Returns the value of an earlier row.
    pub(crate) fn value(&self, place: &Range<usize>) -> &[u8] {
        self.bytes.get(place.clone()).unwrap_or_default()
    }

    pub(crate) fn end_commit(&mut self) {
        self.set(self.rows_at, self.rows);
        self.commits = self.commits.saturating_add(1);
    }

    /// Removes the unfinished commit.
    pub(crate) fn undo(&mut self) {
        self.bytes.truncate(self.rows_at);
    }

    /// Returns the frame, and its written form: packed if that is shorter, checksummed and padded.
    pub(crate) fn finish(self) -> (Arc<Frame>, Vec<u8>) {
        let rows = self.bytes.get(HEADER..).unwrap_or_default();
        let packed = lz4_flex::block::compress(rows);
        let is_shorter = packed.len() < rows.len();
        let payload = if is_shorter { &packed } else { rows };
        let header = Header {
            payload: payload.len(),
            first: self.first,
            commits: self.commits,
            crc: crc32c::crc32c(payload),
            rows: is_shorter.then_some(rows.len()),
        };
        let mut written = header.write();
        written.extend_from_slice(payload);
        written.resize(header.frame_bytes(), 0);
        (Arc::new(Frame { header, bytes: self.bytes }), written)
    }
}

#[cfg(test)]
impl Frame {
    /// The form of versions that did not pack.
    pub(crate) fn plain(&self) -> Vec<u8> {
        let rows = self.bytes.get(HEADER..).unwrap();
        let crc = crc32c::crc32c(rows);
        let header = Header { payload: rows.len(), crc, rows: None, ..self.header };
        let mut bytes = header.write();
        bytes.extend_from_slice(rows);
        bytes.resize(header.frame_bytes(), 0);
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn filled(values: &[Vec<u8>]) -> Builder {
        let mut builder = Builder::new(Sequence(7));
        for (n, value) in values.iter().enumerate() {
            builder.begin();
            let put = |out: &mut Vec<u8>| -> Result<(), Infallible> {
                out.extend_from_slice(value);
                Ok(())
            };
            builder.put(format!("key {n}").as_bytes(), put).unwrap();
            builder.delete(b"gone");
            builder.end_commit();
        }
        builder
    }

    fn values(frame: &Frame) -> Vec<Option<Vec<u8>>> {
        frame.rows().map(|row| row.unwrap().value.map(<[u8]>::to_vec)).collect()
    }

    fn noise(bytes: usize) -> Vec<u8> {
        let mut seed = 1_u64;
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            seed.to_le_bytes()[7]
        };
        (0..bytes).map(|_| next()).collect()
    }

    #[test]
    fn repetitive_frames_are_compressed_others_are_not_and_both_are_read_unchanged() {
        let same = vec![br#"{"workflow":"onboarding","state":"Provisioning"}"#.repeat(8); 40];
        for (of, is_packed) in [(same, true), (vec![noise(4_000)], false), (vec![Vec::new()], false)] {
            let (frame, written) = filled(&of).finish();
            assert_eq!(written.len(), frame.header.frame_bytes());
            assert_eq!(frame.header.rows.is_some(), is_packed, "{} bytes", frame.bytes.len());
            assert!(!is_packed || written.len() * 10 < frame.bytes.len(), "{} bytes written", written.len());
            let read = Frame::new(written).unwrap();
            assert_eq!((read.header, values(&read)), (frame.header, values(&frame)));
            assert_eq!(values(&read).into_iter().step_by(2).flatten().collect::<Vec<_>>(), of);
            let plain = Frame::new(frame.plain()).unwrap();
            assert_eq!((plain.header.rows, values(&plain)), (None, values(&frame)));
        }
    }

    #[test]
    fn a_packed_frame_with_a_wrong_length_is_refused() {
        let (frame, written) = filled(&vec![b"the same ".repeat(100); 9]).finish();
        let rows = frame.header.rows.unwrap();
        for wrong in [1, rows - 1, rows + 1, rows * MOST_PACKED, u32::MAX as usize] {
            let mut bytes = Header { rows: Some(wrong), ..frame.header }.write();
            bytes.extend_from_slice(&written[HEADER..]);
            assert!(Header::read(&bytes).is_some() && Frame::new(bytes).is_none(), "{wrong}");
        }
        for at in HEADER..HEADER + frame.header.payload {
            let mut payload = written[HEADER..HEADER + frame.header.payload].to_vec();
            payload[at - HEADER] ^= 0x5A;
            let mut bytes = Header { crc: crc32c::crc32c(&payload), ..frame.header }.write();
            bytes.extend_from_slice(&payload);
            // It may unpack to other rows of the same length, but must not panic.
            drop(Frame::new(bytes));
        }
    }
}
