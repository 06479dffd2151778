//! The delivery counts of tasks, which survive a kill: `deliveries.log`.
//!
//! Best effort by design: a row is written before a lease is given, and never synced, so it outlives the process but
//! perhaps not a power cut. Rows of 40 bytes: `execution 16 | visit u32 | slot u32 | since u64 | deliveries u32 |
//! crc32c u32`. Damaged rows are skipped; a row counts only for a task that counts from the same commit.

use crate::{
    ExecutionId, Sequence, TaskId,
    embedded::{format::bytes::Cursor, tasks::Tasks},
};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, BufReader, BufWriter, Read as _, Write},
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

/// The content of the file on opening, sorted: with a million tasks a hash map would need twice the memory, and
/// lookups are in order.
pub(crate) struct Delivered(Vec<((TaskId, Sequence), u32)>);

impl Delivered {
    /// Returns the delivery count of `id` since the commit `since`.
    pub(crate) fn count(&self, id: TaskId, since: Sequence) -> u32 {
        // The last written of several rows counts, and sorting has put it last.
        let behind = self.0.partition_point(|(of, _)| *of <= (id, since));
        let last = behind.checked_sub(1).and_then(|at| self.0.get(at));
        last.filter(|(of, _)| *of == (id, since)).map_or(0, |(_, deliveries)| *deliveries)
    }
}

/// Returns the content of the file in `dir`; empty without a file.
pub(crate) fn read(dir: &Path) -> Delivered {
    let mut rows = Vec::new();
    if let Ok(file) = File::open(path(dir)) {
        rows.reserve_exact(file.metadata().map_or(0, |meta| usize::try_from(meta.len()).unwrap_or(0) / ROW));
        let (mut file, mut row) = (BufReader::new(file), [0; ROW]);
        while file.read_exact(&mut row).is_ok() {
            rows.extend(decode(&row));
        }
    }
    rows.sort_by_key(|(of, _)| *of);
    Delivered(rows)
}

/// Rewrites the file with `rows`. Returns it open at its end, and its length in bytes.
pub(crate) fn write(
    dir: &Path,
    rows: impl Iterator<Item = (TaskId, Sequence, u32)>,
) -> io::Result<(File, usize)> {
    let temporary = dir.join("deliveries.partial");
    let mut file = BufWriter::new(File::create(&temporary)?);
    let mut bytes = 0_usize;
    for (id, since, deliveries) in rows {
        file.write_all(&encode(id, since, deliveries))?;
        bytes = bytes.saturating_add(ROW);
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?;
    let file = OpenOptions::new().append(true).open(&temporary)?;
    fs::rename(temporary, path(dir))?;
    Ok((file, bytes))
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
    /// Rewrites the file with the deliveries of `tasks`, and opens it.
    pub(crate) fn open(dir: &Path, tasks: &Tasks) -> io::Result<Self> {
        let rows = tasks.delivered().map(|(id, held)| (id, held.since, held.deliveries));
        let (file, bytes) = write(dir, rows)?;
        Ok(Self { file, dir: dir.to_owned(), bytes })
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    pub(crate) fn append(&mut self, rows: impl Iterator<Item = (TaskId, Sequence, u32)>) -> io::Result<()> {
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
