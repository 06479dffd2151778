//! sled as the index: every row of the store, behind the journal, and either proved complete or deleted.
//!
//! One thread writes, in batches of about [`BATCH_BYTES`], each followed by a flush: with more buffered sled hangs
//! (ADR 0002). Rows are grouped in blocks, each of them one row of sled (`block.rs`). Each batch contains statistics
//! of the whole index, so that a scan on opening can prove it complete. Long values are split into pieces, because
//! sled never frees the files of long ones.

mod apply;
mod block;
mod cache;
mod full_scan;
mod merge;
mod read;
mod stats;
mod verify;

pub(crate) use cache::CacheTrim;
pub(crate) use merge::merged;
#[cfg(test)]
pub(crate) use read::rows_in;
pub(crate) use stats::IndexStats;
pub(crate) use verify::{Verdict, Verified, open_verified};

use crate::{
    Error, Sequence,
    embedded::{
        faults::Faults,
        format::{
            bytes::{Cursor, length},
            key,
        },
        memtable::Value,
    },
    hex,
    sync::lock_unpoisoned,
};
use std::{
    collections::BTreeMap,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// The most bytes written to sled between two flushes.
pub(crate) const BATCH_BYTES: usize = 256 << 10;
/// Longer values are split into pieces of this length, in bytes.
const PIECE_BYTES: usize = 60 << 10;
/// The first byte of the stand-in for a value in pieces; no envelope begins with it.
const PIECES: u8 = 0xC5;

/// The operations of a batch.
pub(crate) type Rows<'a> = BTreeMap<&'a [u8], Option<&'a [u8]>>;

/// A key and its complete value.
pub(crate) type Found = (Box<[u8]>, Value);

/// An open index.
pub(crate) struct Index {
    /// Taken out only to be dropped.
    db: Option<sled::Db>,
    progress: Progress,
    stats: Mutex<IndexStats>,
    folder: PathBuf,
    faults: Arc<Faults>,
}

/// The stand-in for a value in pieces.
struct Stub {
    pieces: u16,
    bytes: usize,
    crc: u32,
}

impl Stub {
    fn read(value: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(value);
        let is_stub = cursor.u8() == Some(PIECES);
        let stub =
            Self { pieces: cursor.u16()?, bytes: usize::try_from(cursor.u32()?).ok()?, crc: cursor.u32()? };
        (is_stub && cursor.is_empty()).then_some(stub)
    }

    fn write(value: &[u8]) -> Vec<u8> {
        let pieces = u16::try_from(value.len().div_ceil(PIECE_BYTES)).unwrap_or(u16::MAX);
        let mut stub = vec![PIECES];
        stub.extend_from_slice(&pieces.to_le_bytes());
        stub.extend_from_slice(&length(value.len()).to_le_bytes());
        stub.extend_from_slice(&crc32c::crc32c(value).to_le_bytes());
        stub
    }
}

/// Counts progress, to distinguish a slow operation from a stuck one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(crate) fn record_progress(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    /// Runs `work` on its own thread, and gives it up after no progress for `limit`; then returns `None`.
    pub(crate) fn watch<T: Send + 'static>(
        &self,
        limit: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, result) = mpsc::sync_channel(1);
        // Without a receiver, the result is dropped there.
        let run = move || drop(done.send(work()));
        thread::Builder::new().name("store-open".into()).spawn(run).ok()?;
        let mut seen = 0;
        loop {
            match result.recv_timeout(limit.max(Duration::from_millis(1))) {
                Ok(value) => return Some(value),
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) => {
                    let moved = self.0.load(Ordering::Relaxed);
                    if moved == seen {
                        return None;
                    }
                    seen = moved;
                }
            }
        }
    }
}

/// Runs an operation of sled; its panics become errors.
pub(crate) fn guarded<T>(what: impl FnOnce() -> Result<T, sled::Error>) -> Result<T, Error> {
    match catch_unwind(AssertUnwindSafe(what)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(Error::Unavailable { why: format!("the index failed: {error}") }),
        Err(_) => Err(Error::Unavailable { why: "the index panicked".into() }),
    }
}

/// A pending batch, and the statistics after it.
struct Pending {
    batch: sled::Batch,
    bytes: usize,
    stats: IndexStats,
}

impl Pending {
    /// One row of sled. Each appears once in a batch, so it replaces the row that sled returns.
    fn put(&mut self, key: &[u8], former: Option<&[u8]>, value: Option<Vec<u8>>) {
        if former.is_none() && value.is_none() {
            return;
        }
        if let Some(former) = former {
            self.stats.subtract(key, former);
        }
        let bytes = key.len().saturating_add(value.as_ref().map_or(0, Vec::len));
        self.bytes = self.bytes.saturating_add(bytes);
        match value {
            Some(value) => {
                self.stats.add(key, &value);
                self.batch.insert(key, value);
            }
            None => self.batch.remove(key),
        }
    }
}

impl Drop for Index {
    /// sled flushes when it is dropped, which can hang too. The wait is limited to two seconds.
    fn drop(&mut self) {
        let (db, (done, dropped)) = (self.db.take(), mpsc::sync_channel::<()>(1));
        let spawned = thread::Builder::new().name("store-drop".into()).spawn(move || {
            drop(db);
            drop(done);
        });
        if spawned.is_ok() && dropped.recv_timeout(Duration::from_secs(2)) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the index in {} cannot be closed and is abandoned", self.folder.display());
        }
    }
}

impl Index {
    fn db(&self) -> Result<&sled::Db, sled::Error> {
        self.db.as_ref().ok_or_else(|| sled::Error::Unsupported("the index is closed".into()))
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn stats(&self) -> IndexStats {
        *lock_unpoisoned(&self.stats)
    }

    pub(crate) fn applied(&self) -> Sequence {
        self.stats().applied
    }

    /// Records how often the store has been opened.
    pub(crate) fn set_opens(&self, opens: u64) -> Result<(), Error> {
        let mut pending = self.pending();
        pending.stats.opens = opens;
        self.flush(&mut pending)
    }

    fn pending(&self) -> Pending {
        Pending { batch: sled::Batch::default(), bytes: 0, stats: self.stats() }
    }

    fn flush_if_full(&self, pending: &mut Pending) -> Result<(), Error> {
        // The next part may be as large, and is not split.
        if pending.bytes >= BATCH_BYTES / 2 { self.flush(pending) } else { Ok(()) }
    }

    fn flush(&self, pending: &mut Pending) -> Result<(), Error> {
        let mut batch = std::mem::take(&mut pending.batch);
        batch.insert(key::META, pending.stats.encode());
        guarded(|| {
            self.db()?.apply_batch(batch)?;
            self.db()?.flush()
        })?;
        self.faults.after_batch.call();
        self.progress.record_progress();
        pending.bytes = 0;
        *lock_unpoisoned(&self.stats) = pending.stats;
        Ok(())
    }
}

/// The rows of a block that sled gave, or why it has none.
fn opened(key: &[u8], sealed: &[u8]) -> Result<Vec<u8>, Error> {
    block::open(sealed).map_err(|why| malformed(key, why))
}

/// The rows of what [`opened`] gave, or why it has none.
fn rows_of<'a>(key: &[u8], plain: &'a [u8]) -> Result<Vec<block::Row<'a>>, Error> {
    block::rows(plain).map_err(|why| malformed(key, why))
}

fn malformed(key: &[u8], why: &str) -> Error {
    let what = format!("the block of the index from key {} on", hex::encode(key));
    Error::Corrupt { what, why: why.into() }
}
