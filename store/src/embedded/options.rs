//! The options of an embedded store; every number has a unit and a default.

use super::faults::Faults;
use std::{fmt, io, path::Path, sync::Arc, time::Duration};

/// Returns the free bytes on the file system of a folder.
pub type FreeSpace = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// Called once, with the reason, when the index makes no progress for [`Options::watchdog`].
pub type OnStall = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of an [`Embedded`](crate::Embedded) store.
#[derive(Clone)]
pub struct Options {
    /// Memory of sled's page cache, in bytes. Default 4 MiB; the kernel also caches the file.
    pub cache_bytes: u64,
    /// Length of a journal file, filled with zeros in advance, in bytes. Default 16 MiB.
    pub segment_bytes: u64,
    /// A checkpoint is written when the journal has grown by this many bytes, or by the size of the last snapshot if
    /// that is more. Default 64 MiB.
    pub checkpoint_after_bytes: u64,
    /// With less free space than this, in bytes, no execution can begin; with less than a quarter of it, no commit is
    /// possible. Default 64 MiB.
    pub reserve_bytes: u64,
    /// Journalled bytes that may wait for the index before commits wait too. Default 64 MiB.
    pub backlog_bytes: usize,
    /// Bytes of commits that may wait for the writer before callers wait too. Default 64 MiB.
    pub inbox_bytes: usize,
    /// How long writes of one row are collected, so that they reach sled as one. Default 1 s.
    pub index_delay: Duration,
    /// A single caller commits on its own thread, without waking another, if a sync takes no longer than this.
    /// Default 1 ms.
    pub quick_sync: Duration,
    /// The process ends if the index has work and makes no progress for this long. Default 30 s.
    pub watchdog: Duration,
    /// The index is rebuilt if opening it makes no progress for this long. Default 60 s.
    pub open_stall: Duration,
    /// The interval of checks of free space, index progress and failed parts. Default 1 s.
    pub tick: Duration,
    /// Holds a store in a copied folder. Default: true; turn it off for file systems that renumber files.
    pub notice_copies: bool,
    /// Threads that read from sled. Default 2.
    pub readers: usize,
    /// Ends the process when the index makes no progress. Default: exit with status 74 (`EX_IOERR`).
    pub on_stall: OnStall,
    /// Returns free space. Default: `statvfs`, as for an unprivileged user.
    pub free_space: FreeSpace,
    /// Injects faults, for tests. Default: none.
    pub faults: Arc<Faults>,
}

impl Default for Options {
    fn default() -> Self {
        const MIB: u64 = 1 << 20;
        Self {
            cache_bytes: 4 * MIB,
            segment_bytes: 16 * MIB,
            checkpoint_after_bytes: 64 * MIB,
            reserve_bytes: 64 * MIB,
            backlog_bytes: 64 << 20,
            inbox_bytes: 64 << 20,
            index_delay: Duration::from_secs(1),
            quick_sync: Duration::from_millis(1),
            watchdog: Duration::from_secs(30),
            open_stall: Duration::from_secs(60),
            tick: Duration::from_secs(1),
            notice_copies: true,
            readers: 2,
            on_stall: Arc::new(|_| std::process::exit(74)),
            free_space: Arc::new(free_space),
            faults: Arc::default(),
        }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("cache_bytes", &self.cache_bytes)
            .field("segment_bytes", &self.segment_bytes)
            .field("checkpoint_after_bytes", &self.checkpoint_after_bytes)
            .field("reserve_bytes", &self.reserve_bytes)
            .field("backlog_bytes", &self.backlog_bytes)
            .field("watchdog", &self.watchdog)
            .finish_non_exhaustive()
    }
}

fn free_space(folder: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(folder)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}
