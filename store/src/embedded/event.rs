//! Wakes threads that wait for an event.

use crate::sync::lock_unpoisoned;
use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// Counts events; a waiter that has read the count misses none.
#[derive(Debug, Default)]
pub(crate) struct EventCount {
    count: Mutex<u64>,
    changed: Condvar,
}

impl EventCount {
    pub(crate) fn notify(&self) {
        let mut count = lock_unpoisoned(&self.count);
        *count = count.wrapping_add(1);
        self.changed.notify_all();
    }

    pub(crate) fn count(&self) -> u64 {
        *lock_unpoisoned(&self.count)
    }

    /// Waits until an event after the count `seen`, or for `limit`.
    pub(crate) fn wait(&self, seen: u64, limit: Duration) {
        let count = lock_unpoisoned(&self.count);
        let waited = self.changed.wait_timeout_while(count, limit, |count| *count == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
