//! Serialises changes to an object within this process. Slurm has no conditional writes, so two concurrent changes
//! would overwrite each other.

use engine::ActionError;
use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};
use tokio::sync::{Mutex as Turn, OwnedMutexGuard};
use workflows::platform::codes;

/// The delay before another attempt to lock the file.
const AGAIN: Duration = Duration::from_millis(20);

/// The locks of all accounting databases that this process writes, by path of `slurm.conf`.
static ACCOUNTINGS: Locks = Locks::new();

/// Locks by name of an object.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<BTreeMap<String, Weak<Turn<()>>>>);

/// The right to write an accounting database, until this is dropped.
#[derive(Debug)]
pub(super) struct AccountingLock {
    _here: OwnedMutexGuard<()>,
    _everywhere: Option<File>,
}

/// Waits for the right to write the accounting database of a `slurm.conf`: a lock in this process, and the `lock` file
/// among all processes that share it.
///
/// Before 23.11, slurmdbd stores the account tree as numbers that each addition and removal shifts, and reads them
/// without a lock. Two concurrent writers corrupt the numbers; a removal then deletes unrelated accounts, and slurmdbd
/// crashes when it reads a child without a parent.
pub(super) async fn accounting(conf: &Path, lock: Option<&PathBuf>) -> Result<AccountingLock, ActionError> {
    let here = ACCOUNTINGS.of(&conf.display().to_string()).await;
    let Some(path) = lock.cloned() else { return Ok(AccountingLock { _here: here, _everywhere: None }) };
    let named = path.display().to_string();
    // Polls instead of blocking a thread: a blocked thread cannot be cancelled and would lock the file after the call
    // has ended.
    let locked = async {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        loop {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                Err(std::fs::TryLockError::WouldBlock) => tokio::time::sleep(AGAIN).await,
                Err(std::fs::TryLockError::Error(error)) => return Err(error),
            }
        }
    };
    let locked: std::io::Result<File> = locked.await;
    let file = locked.map_err(|e| {
        let why = format!("accounting_lock {named}: {e}; give a file that Tenure may write, on a file system that keeps locks");
        ActionError::transient(codes::UNAVAILABLE, why)
    })?;
    Ok(AccountingLock { _here: here, _everywhere: Some(file) })
}

impl Locks {
    const fn new() -> Self {
        Self(Mutex::new(BTreeMap::new()))
    }

    /// Waits for the lock of an object. It is released when the guard is dropped.
    pub(super) async fn of(&self, thing: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.retain(|_, turn| turn.strong_count() > 0);
            let there = all.get(thing).and_then(Weak::upgrade);
            let turn = there.unwrap_or_else(|| Arc::new(Turn::new(())));
            all.insert(thing.to_owned(), Arc::downgrade(&turn));
            turn
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn writers_of_one_resource_are_serialised_and_others_are_not() {
        let turns = Locks::default();
        let first = turns.of("a").await;
        let _other = turns.of("b").await;
        let second = tokio::time::timeout(std::time::Duration::from_millis(20), turns.of("a")).await;
        assert!(second.is_err());
        drop(first);
        let _second = turns.of("a").await;
        assert_eq!(turns.0.lock().unwrap().len(), 2, "what nobody changes is forgotten");
    }

    #[tokio::test]
    async fn writes_to_the_accounting_are_serialised_here_and_by_its_lock_everywhere() {
        let dir = tempfile::tempdir().unwrap();
        let (conf, other) = (dir.path().join("slurm.conf"), dir.path().join("other.conf"));
        let lock = dir.path().join("accounting.lock");
        let soon = std::time::Duration::from_millis(60);

        let first = accounting(&conf, None).await.unwrap();
        assert!(tokio::time::timeout(soon, accounting(&conf, None)).await.is_err());
        drop(first);
        // Another path to the same accounting database, as on another machine.
        let first = accounting(&conf, Some(&lock)).await.unwrap();
        assert!(tokio::time::timeout(soon, accounting(&other, Some(&lock))).await.is_err());
        drop(first);
        let _second = accounting(&other, Some(&lock)).await.unwrap();

        let nowhere = dir.path().join("no/such");
        let refused = accounting(&conf, Some(&nowhere)).await.unwrap_err();
        assert!(
            refused.message.starts_with("accounting_lock ") && refused.code == codes::UNAVAILABLE,
            "{refused}"
        );
    }
}
