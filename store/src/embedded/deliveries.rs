//! How often each task has been handed out, over a kill: `deliveries.log`.
//!
//! Best effort by design: a row is written before a lease is given, and never synced, so it outlives the process but
//! perhaps not a power cut. Rows of 40 bytes: `execution 16 | visit u32 | slot u32 | since u64 | deliveries u32 |
//! crc32c u32`. Damaged rows are passed over; a row counts only for a task that counts from the same commit.

use super::{bytes::Cursor, tasks::Tasks};
use crate::{ExecutionId, Sequence, TaskId};
use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

const ROW: usize = 40;
/// The file is rewritten once it is longer than this, in bytes, and mostly stale.
const COMPACT_BYTES: usize = 1 << 20;

fn path(dir: &Path) -> PathBuf {
    dir.join("deliveries.log")
}

fn encode(id: TaskId, since: Sequence, deliveries: u32) -> [u8; ROW] {
    let mut row = [0; ROW];
    let mut out = row.as_mut_slice();
    // Writing into a slice of the right length cannot fail.
    let _ = out.write_all(id.execution.as_bytes());
    for number in [id.visit, id.slot] {
        let _ = out.write_all(&number.to_le_bytes());
    }
    let _ = out.write_all(&since.0.to_le_bytes());
    let _ = out.write_all(&deliveries.to_le_bytes());
    let crc = crc32c::crc32c(row.split_at(ROW - 4).0);
    row.split_at_mut(ROW - 4).1.copy_from_slice(&crc.to_le_bytes());
    row
}

fn decode(row: &[u8]) -> Option<((TaskId, Sequence), u32)> {
    let (content, crc) = row.split_last_chunk::<4>()?;
    let mut cursor = Cursor::new(content);
    let execution = ExecutionId::from_bytes(cursor.array()?);
    let id = TaskId { execution, visit: cursor.u32()?, slot: cursor.u32()? };
    let (since, deliveries) = (Sequence(cursor.u64()?), cursor.u32()?);
    (crc32c::crc32c(content) == u32::from_le_bytes(*crc)).then_some(((id, since), deliveries))
}

/// What the file in `dir` says; nothing if there is none.
pub(crate) fn read(dir: &Path) -> HashMap<(TaskId, Sequence), u32> {
    let bytes = fs::read(path(dir)).unwrap_or_default();
    bytes.chunks(ROW).filter_map(decode).collect()
}

/// Writes the file anew with `rows`; returns it open at its end, and its length in bytes.
pub(crate) fn write(
    dir: &Path,
    rows: impl Iterator<Item = (TaskId, Sequence, u32)>,
) -> io::Result<(File, usize)> {
    let rows: Vec<[u8; ROW]> = rows.map(|(id, since, deliveries)| encode(id, since, deliveries)).collect();
    let temporary = dir.join("deliveries.partial");
    fs::write(&temporary, rows.concat())?;
    let file = OpenOptions::new().append(true).open(&temporary)?;
    fs::rename(temporary, path(dir))?;
    Ok((file, rows.len().saturating_mul(ROW)))
}

/// Removes the file in `dir`, if there is one.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_file(path(dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

/// The open file.
pub(crate) struct Log {
    file: File,
    dir: PathBuf,
    bytes: usize,
}

impl Log {
    /// Rewrites the file to what `tasks` know, and opens it.
    pub(crate) fn open(dir: &Path, tasks: &Tasks) -> io::Result<Self> {
        let rows = tasks.delivered().map(|(id, held)| (id, held.since, held.deliveries));
        let (file, bytes) = write(dir, rows)?;
        Ok(Self { file, dir: dir.to_owned(), bytes })
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    pub(crate) fn note(&mut self, rows: impl Iterator<Item = (TaskId, Sequence, u32)>) -> io::Result<()> {
        let rows: Vec<[u8; ROW]> =
            rows.map(|(id, since, deliveries)| encode(id, since, deliveries)).collect();
        self.bytes = self.bytes.saturating_add(rows.len().saturating_mul(ROW));
        self.file.write_all(&rows.concat())
    }

    /// Rewrites the file if it has grown far past what `tasks` need.
    pub(crate) fn compact(&mut self, tasks: &Tasks) -> io::Result<()> {
        if self.bytes > COMPACT_BYTES && self.bytes > tasks.len().saturating_mul(4 * ROW) {
            *self = Self::open(&self.dir, tasks)?;
        }
        Ok(())
    }
}
