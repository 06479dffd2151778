//! Fault switches for tests.

use crate::sync::lock_unpoisoned;
use std::{
    fmt, io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// The active faults.
#[derive(Debug, Default)]
pub struct Faults {
    /// The index thread stops before its next batch.
    pub stall_index: AtomicBool,
    /// The index fails as if sled had met an input or output error.
    pub fail_index: AtomicBool,
    /// Opening the index never ends, the next time.
    pub hang_open: AtomicBool,
    /// Journal syncs fail.
    pub fail_sync: AtomicBool,
    /// No further journal file can be made: the disk is full.
    pub full_disk: AtomicBool,
    /// Called after each sync of the journal. Only the content of its files at that moment survives a power cut.
    pub after_sync: Hook,
    /// Called when the index has a batch on disk. The content of its files at that moment survives a crash.
    pub after_batch: Hook,
}

/// An optional callback.
#[derive(Default)]
pub struct Hook(Mutex<Option<Box<dyn FnMut() + Send>>>);

impl Hook {
    /// Calls `hook` from now on.
    pub fn set(&self, hook: impl FnMut() + Send + 'static) {
        *lock_unpoisoned(&self.0) = Some(Box::new(hook));
    }

    pub(crate) fn call(&self) {
        if let Some(hook) = lock_unpoisoned(&self.0).as_mut() {
            hook();
        }
    }
}

impl fmt::Debug for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

impl Faults {
    pub(crate) fn hang_open(&self) -> bool {
        self.hang_open.swap(false, Ordering::Relaxed)
    }

    pub(crate) fn stalls_index(&self) -> bool {
        self.stall_index.load(Ordering::Relaxed)
    }

    pub(crate) fn fails_index(&self) -> bool {
        self.fail_index.load(Ordering::Relaxed)
    }

    pub(crate) fn sync(&self) -> io::Result<()> {
        if self.fail_sync.load(Ordering::Relaxed) { Err(io::Error::from_raw_os_error(5)) } else { Ok(()) }
    }

    pub(crate) fn blank(&self) -> io::Result<()> {
        if self.full_disk.load(Ordering::Relaxed) { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }
}
