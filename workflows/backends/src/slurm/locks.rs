//! One change of a thing at a time, within this process: Slurm compares nothing, so two at once would both read, and both write.

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

/// How long it is until a lock that another holds is tried again.
const AGAIN: Duration = Duration::from_millis(20);

/// Whose turn it is at each accounting that this process writes, by the `slurm.conf` that leads there.
static ACCOUNTINGS: Locks = Locks::new();

/// Whose turn it is, by thing.
#[derive(Debug, Default)]
pub(super) struct Locks(Mutex<BTreeMap<String, Weak<Turn<()>>>>);

/// A turn at writing an accounting; it ends when this is dropped.
#[derive(Debug)]
pub(super) struct AccountingLock {
    _here: OwnedMutexGuard<()>,
    _everywhere: Option<File>,
}

/// Waits for a turn at writing the accounting of a `slurm.conf`: one in this process, and one among all who lock the `lock` file.
///
/// Before 23.11 slurmdbd keeps the tree of accounts as numbers that each addition and removal shifts, and reads them unlocked: of two
/// writers at once one shifts what the other has moved. A removal then takes whatever stands between wrong numbers along, and slurmdbd
/// ends by a segmentation fault whenever it reads a child whose parent is gone.
pub(super) async fn accounting(conf: &Path, lock: Option<&PathBuf>) -> Result<AccountingLock, ActionError> {
    let here = ACCOUNTINGS.of(&conf.display().to_string()).await;
    let Some(path) = lock.cloned() else { return Ok(AccountingLock { _here: here, _everywhere: None }) };
    let named = path.display().to_string();
    // Not a thread that waits: it could not be called off, and would take its turn after the call has ended.
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

    /// Waits until nobody else changes the thing; it is the caller's until the answer is dropped.
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
    async fn a_thing_is_changed_by_one_at_a_time_and_others_need_not_wait() {
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
    async fn an_accounting_is_written_by_one_at_a_time_here_and_under_its_lock_everywhere() {
        let dir = tempfile::tempdir().unwrap();
        let (conf, other) = (dir.path().join("slurm.conf"), dir.path().join("other.conf"));
        let lock = dir.path().join("accounting.lock");
        let soon = std::time::Duration::from_millis(60);

        let first = accounting(&conf, None).await.unwrap();
        assert!(tokio::time::timeout(soon, accounting(&conf, None)).await.is_err());
        drop(first);
        // By another way to the same accounting, as another machine has it.
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
