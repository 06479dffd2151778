//! Waking a thread that waits for something to have happened.

use crate::embedded::commit::apply::locked;
use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

/// Counts what happened; a waiter that has seen the count misses nothing.
#[derive(Debug, Default)]
pub(crate) struct Bell {
    rung: Mutex<u64>,
    heard: Condvar,
}

impl Bell {
    pub(crate) fn ring(&self) {
        let mut rung = locked(&self.rung);
        *rung = rung.wrapping_add(1);
        self.heard.notify_all();
    }

    pub(crate) fn count(&self) -> u64 {
        *locked(&self.rung)
    }

    /// Waits until the bell was rung after the count was `seen`, or for `limit`.
    pub(crate) fn wait(&self, seen: u64, limit: Duration) {
        let rung = locked(&self.rung);
        let waited = self.heard.wait_timeout_while(rung, limit, |rung| *rung == seen);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}
