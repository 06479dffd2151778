//! Switches that break the store on purpose, so that tests see how it behaves when the world is broken.

use crate::sync::lock_unpoisoned;
use std::{
    fmt, io,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

/// What is broken at the moment.
#[derive(Debug, Default)]
pub struct Faults {
    /// The index thread stands still before its next batch.
    pub stall_index: AtomicBool,
    /// The index fails as if sled had met an input or output error.
    pub fail_index: AtomicBool,
    /// Opening the index never ends, the next time.
    pub hang_open: AtomicBool,
    /// Journal syncs fail.
    pub fail_sync: AtomicBool,
    /// No further journal file can be made: the disk is full.
    pub full_disk: AtomicBool,
    /// Called when the journal has been synced: what is in its files at that moment outlasts a power cut, and no more.
    pub after_sync: Hook,
    /// Called when the index has a batch on disk: what is in its files at that moment is what a crash then leaves.
    pub after_batch: Hook,
}

/// Something to be called, or nothing.
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
