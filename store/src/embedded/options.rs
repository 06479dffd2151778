//! How an embedded store behaves; every number has a unit and a default.

use super::faults::Faults;
use std::{fmt, io, path::Path, sync::Arc, time::Duration};

/// Says how many bytes are free on the file system of a folder.
pub type FreeSpace = Arc<dyn Fn(&Path) -> io::Result<u64> + Send + Sync>;

/// Called once, with the reason, when the index stands still for [`Options::watchdog`].
pub type OnStall = Arc<dyn Fn(&str) + Send + Sync>;

/// Settings of an [`Embedded`](crate::Embedded) store.
#[derive(Clone)]
pub struct Options {
    /// Memory that sled may fill with pages, in bytes. Default 4 MiB; the kernel's page cache holds the file besides.
    pub cache_bytes: u64,
    /// Length of a journal file, made of zeros ahead of need, in bytes. Default 16 MiB.
    pub segment_bytes: u64,
    /// A checkpoint is written once the journal has grown by so many bytes, or by the size of the last snapshot if
    /// that is more. Default 64 MiB.
    pub checkpoint_after_bytes: u64,
    /// With less free space than this, in bytes, nothing new is begun; with less than a quarter of it, nothing is
    /// committed. Default 64 MiB.
    pub reserve_bytes: u64,
    /// Journalled bytes that may wait for the index before commits wait too. Default 64 MiB.
    pub backlog_bytes: usize,
    /// Bytes of commits that may wait for the writer before callers wait too. Default 64 MiB.
    pub inbox_bytes: usize,
    /// How long the index lets writes of one row pile up, so that they reach sled as one. Default 1 s.
    pub index_delay: Duration,
    /// Whoever is alone commits on its own thread, without one being woken for it, while a sync takes no longer than this. Default 1 ms.
    pub quick_sync: Duration,
    /// An index that has work and makes no progress for so long ends the process. Default 30 s.
    pub watchdog: Duration,
    /// How long opening the index may show no progress before it is rebuilt. Default 60 s.
    pub open_stall: Duration,
    /// How often free space, the index's progress and failed parts are looked at. Default 1 s.
    pub tick: Duration,
    /// Whether a store in a folder that was copied is held. Default: yes; not for file systems that name files anew.
    pub notice_copies: bool,
    /// Threads that read from sled. Default 2.
    pub readers: usize,
    /// What ends the process when the index stands still. Default: exit with status 74 (`EX_IOERR`).
    pub on_stall: OnStall,
    /// Where free space is asked for. Default: `statvfs`, as seen by an unprivileged user.
    pub free_space: FreeSpace,
    /// Breaks things on purpose, for tests. Default: nothing.
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
