//! A frame of the journal: the commits of one sync, as the rows they put and delete.
//!
//! Header, 32 bytes, little-endian: `magic u32 | payload bytes u32 | first sequence u64 | commits u32 | payload
//! crc32c u32 | zero u32 | header crc32c u32`. Payload: for each commit `rows u32`, and for each row `key bytes
//! u16 | key | value bytes u32 | value`, where [`DELETED`] stands for the length of no value. Frames are padded
//! with zeros to a multiple of 8 bytes, so that one behind damage can be searched for in steps of 8.

use super::bytes::{Cursor, length};
use crate::Sequence;
use std::{ops::Range, sync::Arc};

/// `TNRF`.
const MAGIC: u32 = 0x4652_4E54;
/// Length of a frame's header, in bytes.
pub(crate) const HEADER: usize = 32;
/// Stands for the length of the value of a deleted row.
const DELETED: u32 = u32::MAX;

/// What a frame says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) payload: usize,
    pub(crate) first: Sequence,
    pub(crate) commits: u32,
    crc: u32,
}

impl Header {
    /// The header at the front of `bytes`, if one stands there whole.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes.get(..HEADER)?);
        let (magic, payload, first) = (cursor.u32()?, cursor.u32()?, cursor.u64()?);
        let (commits, crc, _, own) = (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let whole = magic == MAGIC && crc32c::crc32c(bytes.get(..HEADER - 4)?) == own;
        whole.then_some(Self {
            payload: usize::try_from(payload).ok()?,
            first: Sequence(first),
            commits,
            crc,
        })
    }

    /// Length of the whole frame with its padding.
    pub(crate) fn frame_bytes(&self) -> usize {
        HEADER.saturating_add(self.payload).next_multiple_of(8)
    }

    /// The last commit of the frame.
    pub(crate) fn last(&self) -> Sequence {
        Sequence(self.first.0.saturating_add(u64::from(self.commits)).saturating_sub(1))
    }

    /// Whether `payload` is what was written under this header.
    pub(crate) fn fits(&self, payload: &[u8]) -> bool {
        payload.len() == self.payload && crc32c::crc32c(payload) == self.crc
    }
}

/// A written frame, kept for as long as the index lacks it.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) header: Header,
    pub(crate) bytes: Vec<u8>,
}

/// One row of a frame: its commit, its key, and where its value lies.
pub(crate) struct Row<'a> {
    pub(crate) sequence: Sequence,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

impl Frame {
    /// The frame in `bytes`, header included.
    pub(crate) fn new(bytes: Vec<u8>) -> Option<Self> {
        let header = Header::read(&bytes)?;
        let payload = bytes.get(HEADER..HEADER.checked_add(header.payload)?)?;
        header.fits(payload).then_some(Self { header, bytes })
    }

    /// The rows in the order in which they take effect; `None` in place of the rest if the content is malformed.
    pub(crate) fn rows(&self) -> impl Iterator<Item = Option<Row<'_>>> {
        let end = HEADER.saturating_add(self.header.payload);
        Rows {
            cursor: Cursor::new(self.bytes.get(HEADER..end).unwrap_or_default()),
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

/// Where a value lies in the bytes of its frame; `None` for a deleted row.
pub(crate) type Place = Option<Range<usize>>;

/// A frame being filled.
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

    /// Appends a row and says where its value lies.
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

    /// The value of a row put earlier.
    pub(crate) fn value(&self, place: &Range<usize>) -> &[u8] {
        self.bytes.get(place.clone()).unwrap_or_default()
    }

    pub(crate) fn end(&mut self) {
        self.set(self.rows_at, self.rows);
        self.commits = self.commits.saturating_add(1);
    }

    /// Takes back the commit that was begun and not ended.
    pub(crate) fn undo(&mut self) {
        self.bytes.truncate(self.rows_at);
    }

    /// The frame, checksummed and padded.
    pub(crate) fn finish(mut self) -> Arc<Frame> {
        let payload = self.bytes.len().saturating_sub(HEADER);
        let crc = crc32c::crc32c(self.bytes.get(HEADER..).unwrap_or_default());
        let mut header = Vec::with_capacity(HEADER);
        header.extend_from_slice(&MAGIC.to_le_bytes());
        header.extend_from_slice(&length(payload).to_le_bytes());
        header.extend_from_slice(&self.first.0.to_le_bytes());
        header.extend_from_slice(&self.commits.to_le_bytes());
        header.extend_from_slice(&crc.to_le_bytes());
        header.extend_from_slice(&[0; 4]);
        let own = crc32c::crc32c(&header);
        header.extend_from_slice(&own.to_le_bytes());
        if let Some(place) = self.bytes.get_mut(..HEADER) {
            place.copy_from_slice(&header);
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let header = Header { payload, first: self.first, commits: self.commits, crc };
        Arc::new(Frame { header, bytes: self.bytes })
    }
}
