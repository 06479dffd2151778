//! Free space on the disk: whether executions may begin, and whether commits are possible.

use crate::{Error, embedded::options::Options, sync::lock_unpoisoned};
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

/// Why the next journal file could not be made.
#[derive(Clone, Debug)]
enum SegmentFailure {
    Room(String),
    Other(String),
}

/// The known state of free space.
pub(crate) struct Space {
    dir: PathBuf,
    reserve: u64,
    free: AtomicU64,
    failure: Mutex<Option<SegmentFailure>>,
}

impl Space {
    pub(crate) fn new(dir: &Path, options: &Options) -> Self {
        let space = Self {
            dir: dir.to_owned(),
            reserve: options.reserve_bytes,
            free: AtomicU64::new(u64::MAX),
            failure: Mutex::new(None),
        };
        space.refresh(options);
        space
    }

    /// Reads the free space again.
    pub(crate) fn refresh(&self, options: &Options) {
        if let Ok(free) = (options.free_space)(&self.dir) {
            self.free.store(free, Ordering::Relaxed);
        }
    }

    /// Records whether the next journal file could be created.
    pub(crate) fn note_segment(&self, made: Result<(), &io::Error>) {
        *lock_unpoisoned(&self.failure) = made.err().map(|error| {
            let full = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded].contains(&error.kind());
            let why = format!("no further journal file can be made in {}: {error}", self.dir.display());
            if full { SegmentFailure::Room(why) } else { SegmentFailure::Other(why) }
        });
    }

    /// Returns the free bytes of the volume, if known.
    pub(crate) fn free(&self) -> Option<u64> {
        Some(self.free.load(Ordering::Relaxed)).filter(|free| *free != u64::MAX)
    }

    /// Returns why there is no next journal file, if that is known.
    pub(crate) fn segment_error(&self) -> Option<Error> {
        lock_unpoisoned(&self.failure).clone().map(|failure| match failure {
            SegmentFailure::Room(what) => Error::Full { what },
            SegmentFailure::Other(why) => Error::Unavailable { why },
        })
    }

    /// Refuses a commit without enough space. Commits that begin an execution are refused earlier than others.
    pub(crate) fn admit(&self, begins: bool) -> Result<(), Error> {
        let free = self.free.load(Ordering::Relaxed);
        let wanted = if begins { self.reserve } else { self.reserve / 4 };
        if free < wanted {
            let what = if begins { "begin an execution" } else { "commit" };
            return Err(Error::Full { what: self.describe(free, wanted, what) });
        }
        match self.segment_error() {
            Some(error) if begins => Err(error),
            Some(_) | None => Ok(()),
        }
    }

    fn describe(&self, free: u64, wanted: u64, what: &str) -> String {
        const MIB: u64 = 1 << 20;
        let (free, wanted) = (free / MIB, wanted.div_ceil(MIB));
        format!("{free} MiB are free in {}, {wanted} MiB are needed to {what}", self.dir.display())
    }

    /// Describes the problem with space, for people.
    pub(crate) fn problem(&self) -> Option<String> {
        self.admit(true).err().map(|error| error.to_string())
    }
}

/// Length of all files under `folder`, in bytes.
pub(crate) fn folder_bytes(folder: &Path) -> u64 {
    let Ok(files) = fs::read_dir(folder) else { return 0 };
    files
        .flatten()
        .filter_map(|file| {
            let metadata = file.metadata().ok()?;
            Some(if metadata.is_dir() { folder_bytes(&file.path()) } else { metadata.len() })
        })
        .fold(0, u64::saturating_add)
}
