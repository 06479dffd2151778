//! Locks of the standard library, without poisoning.
//!
//! Invariant: a panic under a lock leaves the data usable. Callers change locked data in steps that cannot panic halfway.

use std::sync::{Mutex, MutexGuard, PoisonError};
#[cfg(feature = "embedded")]
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks `mutex`, also after a panic of another holder.
pub(crate) fn lock_unpoisoned<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `lock` for reading, also after a panic of another holder.
#[cfg(feature = "embedded")]
pub(crate) fn read_unpoisoned<T: ?Sized>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks `lock` for writing, also after a panic of another holder.
#[cfg(feature = "embedded")]
pub(crate) fn write_unpoisoned<T: ?Sized>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
