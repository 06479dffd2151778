//! Snapshots: every row at one time, `snapshot/<sequence>.snap`, from which the journal is replayed.
//!
//! A snapshot is fuzzy: the index changes while it is copied. It contains every commit up to `applied`, and parts of
//! the commits up to `touched`; replaying the journal from `applied` converges, because each change replaces or
//! deletes a
//! complete row. Blocks:
//! `magic u32 | payload bytes u32 | rows u32 | crc32c u32 (of the eight bytes before and the payload)`, rows as in a
//! frame but never deleted. If LZ4 makes them shorter, the payload is `rows bytes u32` and the packed rows. The first
//! block is the header, without rows; the last is the trailer. A snapshot is invalid without a trailer that counts
//! its rows.

pub(crate) mod take;

use crate::{
    Sequence,
    embedded::{
        format::bytes::{Cursor, length},
        journal::segment,
    },
};
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
};

/// `TNSH`, `TNSB`, `TNSP` and `TNSE`.
const HEAD: u32 = 0x4853_4E54;
const BLOCK: u32 = 0x4253_4E54;
const PACKED: u32 = 0x5053_4E54;
const TRAILER: u32 = 0x4553_4E54;
/// The written format; format 1 is read too and has no packed blocks.
const FORMAT: u32 = 2;
/// The size at which a block is closed, in bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// No block is longer than this: one value at its limit on top of a block nearly full.
const BLOCK_LIMIT: u32 = 1 << 20;
/// The file is synced each time it has grown by this many bytes, so that journal syncs do not wait for all of it.
const SYNC_BYTES: u64 = 4 << 20;

pub(crate) fn folder(dir: &Path) -> PathBuf {
    dir.join("snapshot")
}

pub(crate) fn path(dir: &Path, applied: Sequence) -> PathBuf {
    folder(dir).join(format!("{:020}.snap", applied.0))
}

/// All snapshots of the store in `dir`, oldest first.
pub(crate) fn list(dir: &Path) -> io::Result<Vec<(Sequence, PathBuf)>> {
    segment::numbered(&folder(dir), "snap")
}

/// The extent of a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    pub(crate) applied: Sequence,
    pub(crate) touched: Sequence,
    pub(crate) opens: u64,
    pub(crate) rows: u64,
}

/// A snapshot that is being written, under a temporary name.
pub(crate) struct Writer {
    file: File,
    temporary: PathBuf,
    block: Vec<u8>,
    block_rows: u32,
    rows: u64,
    bytes: u64,
    synced: u64,
}

impl Writer {
    pub(crate) fn create(dir: &Path) -> io::Result<Self> {
        let temporary = folder(dir).join("next.partial");
        let file = File::create(&temporary)?;
        let mut writer =
            Self { file, temporary, block: Vec::new(), block_rows: 0, rows: 0, bytes: 0, synced: 0 };
        writer.write(HEAD, &FORMAT.to_le_bytes(), 0)?;
        Ok(writer)
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        self.block.extend_from_slice(&u16::try_from(key.len()).unwrap_or(u16::MAX).to_le_bytes());
        self.block.extend_from_slice(key);
        self.block.extend_from_slice(&length(value.len()).to_le_bytes());
        self.block.extend_from_slice(value);
        self.block_rows = self.block_rows.saturating_add(1);
        self.rows = self.rows.saturating_add(1);
        if self.block.len() >= BLOCK_BYTES { self.end_block() } else { Ok(()) }
    }

    fn end_block(&mut self) -> io::Result<()> {
        if self.block_rows > 0 {
            let block = std::mem::take(&mut self.block);
            let mut packed = length(block.len()).to_le_bytes().to_vec();
            packed.extend_from_slice(&lz4_flex::block::compress(&block));
            if packed.len() < block.len() {
                self.write(PACKED, &packed, self.block_rows)?;
            } else {
                self.write(BLOCK, &block, self.block_rows)?;
            }
            self.block = block;
            self.block.clear();
            self.block_rows = 0;
        }
        Ok(())
    }

    fn write(&mut self, magic: u32, payload: &[u8], rows: u32) -> io::Result<()> {
        let mut block = Vec::with_capacity(payload.len().saturating_add(16));
        block.extend_from_slice(&magic.to_le_bytes());
        block.extend_from_slice(&length(payload.len()).to_le_bytes());
        block.extend_from_slice(&rows.to_le_bytes());
        block.extend_from_slice(&checksum(magic, length(payload.len()), rows, payload).to_le_bytes());
        block.extend_from_slice(payload);
        self.file.write_all(&block)?;
        self.bytes = self.bytes.saturating_add(block.len() as u64);
        if self.bytes.saturating_sub(self.synced) >= SYNC_BYTES {
            self.file.sync_data()?;
            self.synced = self.bytes;
        }
        Ok(())
    }

    /// Closes the snapshot and makes it visible; returns its length in bytes.
    pub(crate) fn finish(mut self, dir: &Path, extent: Extent) -> io::Result<u64> {
        self.end_block()?;
        let extent = Extent { rows: self.rows, ..extent };
        let mut trailer = Vec::with_capacity(32);
        for number in [extent.applied.0, extent.touched.0, extent.opens, extent.rows] {
            trailer.extend_from_slice(&number.to_le_bytes());
        }
        self.write(TRAILER, &trailer, 0)?;
        self.file.sync_all()?;
        fs::rename(&self.temporary, path(dir, extent.applied))?;
        segment::sync_folder(&folder(dir))?;
        Ok(self.bytes)
    }
}

fn checksum(magic: u32, bytes: u32, rows: u32, payload: &[u8]) -> u32 {
    let mut crc = crc32c::crc32c(&magic.to_le_bytes());
    crc = crc32c::crc32c_append(crc, &bytes.to_le_bytes());
    crc = crc32c::crc32c_append(crc, &rows.to_le_bytes());
    crc32c::crc32c_append(crc, payload)
}

/// Reads the snapshot at `path` to its end and passes every row to `visit`.
///
/// # Errors
/// Returns why it is incomplete, or the error of `visit`.
pub(crate) fn read(
    path: &Path,
    mut visit: impl FnMut(&[u8], &[u8]) -> Result<(), String>,
) -> Result<Extent, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut reader = Blocks { reader: io::BufReader::with_capacity(256 << 10, file), offset: 0 };
    let head = reader.next()?;
    if head.magic != HEAD {
        return Err("it is not a snapshot".into());
    }
    match Cursor::new(&head.payload).u32() {
        Some(1..=FORMAT) => {}
        format => return Err(format!("it has format {format:?}: written by a newer version of Tenure")),
    }
    let mut rows = 0_u64;
    loop {
        let block = reader.next()?;
        match block.magic {
            BLOCK | PACKED => {
                let unpacked = if block.magic == PACKED { unpacked(&block.payload)? } else { block.payload };
                let count = visit_rows(&unpacked, &mut visit)?;
                if count != block.rows {
                    return Err(format!(
                        "a block before byte {} has {count} rows of {}",
                        reader.offset, block.rows
                    ));
                }
                rows = rows.saturating_add(u64::from(count));
            }
            TRAILER => {
                let extent = extent(&block.payload).ok_or("its trailer is too short")?;
                return if extent.rows == rows {
                    Ok(extent)
                } else {
                    Err("its trailer has another row count".into())
                };
            }
            _ => return Err(format!("there is an unknown block before byte {}", reader.offset)),
        }
    }
}

fn extent(trailer: &[u8]) -> Option<Extent> {
    let mut cursor = Cursor::new(trailer);
    Some(Extent {
        applied: Sequence(cursor.u64()?),
        touched: Sequence(cursor.u64()?),
        opens: cursor.u64()?,
        rows: cursor.u64()?,
    })
}

fn unpacked(payload: &[u8]) -> Result<Vec<u8>, String> {
    let (bytes, packed) = payload.split_first_chunk::<4>().ok_or("a packed block is too short")?;
    let bytes = u32::from_le_bytes(*bytes);
    if bytes > BLOCK_LIMIT {
        return Err("a packed block exceeds the limit".into());
    }
    lz4_flex::block::decompress(packed, usize::try_from(bytes).unwrap_or(0))
        .map_err(|error| format!("a packed block cannot be unpacked: {error}"))
}

fn visit_rows(
    payload: &[u8],
    visit: &mut impl FnMut(&[u8], &[u8]) -> Result<(), String>,
) -> Result<u32, String> {
    let mut cursor = Cursor::new(payload);
    let mut count = 0_u32;
    while !cursor.is_empty() {
        let key = cursor.u16().and_then(|bytes| cursor.take(usize::from(bytes)));
        let value = cursor.u32().and_then(|bytes| cursor.take(usize::try_from(bytes).ok()?));
        let (Some(key), Some(value)) = (key, value) else { return Err("a row is cut off".into()) };
        visit(key, value)?;
        count = count.saturating_add(1);
    }
    Ok(count)
}

struct Block {
    magic: u32,
    rows: u32,
    payload: Vec<u8>,
}

struct Blocks {
    reader: io::BufReader<File>,
    offset: u64,
}

impl Blocks {
    fn next(&mut self) -> Result<Block, String> {
        let at = self.offset;
        let torn = |error: io::Error| format!("the block at byte {at} cannot be read: {error}");
        let mut header = [0; 16];
        self.reader.read_exact(&mut header).map_err(torn)?;
        let mut cursor = Cursor::new(&header);
        let (Some(magic), Some(bytes), Some(rows), Some(crc)) =
            (cursor.u32(), cursor.u32(), cursor.u32(), cursor.u32())
        else {
            return Err(format!("the block at byte {at} has no header"));
        };
        if bytes > BLOCK_LIMIT {
            return Err(format!("the block at byte {at} is damaged"));
        }
        let mut payload = vec![0; usize::try_from(bytes).unwrap_or(0)];
        self.reader.read_exact(&mut payload).map_err(torn)?;
        if checksum(magic, bytes, rows, &payload) != crc {
            return Err(format!("the block at byte {at} is damaged"));
        }
        self.offset = at.saturating_add(16).saturating_add(u64::from(bytes));
        Ok(Block { magic, rows, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Rows = Vec<(Vec<u8>, Vec<u8>)>;

    fn written(dir: &Path, rows: &[(Vec<u8>, Vec<u8>)]) -> PathBuf {
        fs::create_dir_all(folder(dir)).unwrap();
        let mut writer = Writer::create(dir).unwrap();
        rows.iter().for_each(|(key, value)| writer.put(key, value).unwrap());
        let extent = Extent { applied: Sequence(7), touched: Sequence(9), opens: 3, rows: 0 };
        writer.finish(dir, extent).unwrap();
        path(dir, Sequence(7))
    }

    fn found(path: &Path) -> Result<Rows, String> {
        let mut rows = Rows::new();
        read(path, |key, value| {
            rows.push((key.to_vec(), value.to_vec()));
            Ok(())
        })?;
        Ok(rows)
    }

    #[test]
    fn packed_and_unpacked_blocks_are_read_back_unchanged() {
        let dir = tempfile::tempdir().unwrap();
        let rows: Vec<_> = (0..900_u32)
            .map(|n| (n.to_be_bytes().to_vec(), br#"{"state":"Reviewing","reason":null}"#.repeat(8)))
            .collect();
        let bytes: usize = rows.iter().map(|(key, value)| key.len() + value.len()).sum();

        let path = written(dir.path(), &rows);

        assert!(fs::metadata(&path).unwrap().len() * 5 < bytes as u64);
        assert_eq!(found(&path).unwrap(), rows);

        // The form of versions that did not pack.
        let mut plain = Writer::create(dir.path()).unwrap();
        plain.file = File::create(&plain.temporary).unwrap();
        plain.write(HEAD, &1_u32.to_le_bytes(), 0).unwrap();
        for chunk in rows.chunks(100) {
            let mut block = Vec::new();
            for (key, value) in chunk {
                block.extend_from_slice(&u16::try_from(key.len()).unwrap().to_le_bytes());
                block.extend_from_slice(key);
                block.extend_from_slice(&length(value.len()).to_le_bytes());
                block.extend_from_slice(value);
            }
            plain.write(BLOCK, &block, 100).unwrap();
            plain.rows += 100;
        }
        plain.finish(dir.path(), Extent::default()).unwrap();
        assert_eq!(found(&super::path(dir.path(), Sequence(0))).unwrap(), rows);
    }

    #[test]
    fn a_newer_format_and_an_invalid_packed_block_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder(dir.path())).unwrap();
        let refused = |head: u32, payload: &[u8]| {
            let mut writer = Writer::create(dir.path()).unwrap();
            writer.file = File::create(&writer.temporary).unwrap();
            writer.write(HEAD, &head.to_le_bytes(), 0).unwrap();
            writer.write(PACKED, payload, 1).unwrap();
            writer.rows = 1;
            writer.finish(dir.path(), Extent::default()).unwrap();
            found(&path(dir.path(), Sequence(0))).unwrap_err()
        };
        assert!(refused(FORMAT + 1, &[]).contains("newer version"));
        assert!(refused(FORMAT, &[1]).contains("too short"));
        assert!(refused(FORMAT, &u32::MAX.to_le_bytes()).contains("exceeds the limit"));
        assert!(refused(FORMAT, &[9, 0, 0, 0, 0xFF, 0xFF]).contains("cannot be unpacked"));
    }
}
