//! A power cut: an acknowledged commit must be in the synced part of the disk.
//!
//! The real embedded store writes to a real folder. Whenever its journal is synced, its exact content is copied: that
//! copy is the disk after a power cut.

use crate::dice::Dice;
use std::{
    fs, io,
    path::Path,
    sync::{Arc, Mutex},
};
use store::{Commit, Embedded, Faults, Key, Options, Put, Store};

/// Commits, cuts the power right after an acknowledgement, and reopens the store; returns the missing commits.
///
/// # Panics
/// If the machine's own disk fails.
#[must_use]
pub fn cut_power(seed: u64) -> Vec<String> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let (live, platter) = (folder.path().join("live"), folder.path().join("platter"));
    let faults = Arc::new(Faults::default());
    let options = || Options { segment_bytes: 64 << 10, ..Options::default() };
    let store = Embedded::open(&live, Options { faults: faults.clone(), ..options() }).unwrap().store;
    // Locked during a copy: there is no power cut in the middle of a copy.
    let copying = Arc::new(Mutex::new(()));
    let (from, to, held) = (live.clone(), platter.clone(), copying.clone());
    faults.after_sync.set(move || {
        // A slow disk exposes an acknowledgement that does not wait for it.
        std::thread::sleep(std::time::Duration::from_millis(2));
        let _held = held.lock().unwrap();
        copy(&from.join("journal"), &to.join("journal")).unwrap();
    });
    let dice = Dice::new(seed, "disk");
    let count = 1 + dice.below(6);
    let found = runtime.block_on(async {
        for n in 1..=count {
            let body = vec![b'x'; 50 + usize::try_from(dice.below(500)).unwrap()];
            let put = |id: String| Put { key: Key::new("rows", id), body: Some(body.clone()) };
            let documents = vec![put(format!("{n:03}"))];
            store.commit(Commit { documents, ..Commit::default() }).await.unwrap();
        }
        // The last one has just been acknowledged.
        let after = folder.path().join("after");
        {
            let _held = copying.lock().unwrap();
            copy(&live.join("HEAD"), &after.join("HEAD")).unwrap();
            copy(&platter.join("journal"), &after.join("journal")).unwrap();
        }
        store.close().await.unwrap();
        let mut missing = Vec::new();
        match Embedded::open(&after, options()) {
            Err(error) => missing.push(format!("after a power cut the store does not open: {error}")),
            Ok(opened) => {
                for n in 1..=count {
                    let key = Key::new("rows", format!("{n:03}"));
                    if opened.store.document(&key).await.unwrap().is_none() {
                        missing.push(format!("commit {n} of {count} was acknowledged and did not survive"));
                    }
                }
                opened.store.close().await.unwrap();
            }
        }
        missing
    });
    drop(store);
    found
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    if from.is_dir() {
        fs::create_dir_all(to)?;
        for file in fs::read_dir(from)? {
            let file = file?;
            // Prepared files may be renamed at the same time.
            if file.path().extension().is_none_or(|extension| extension != "blank") {
                copy(&file.path(), &to.join(file.file_name()))?;
            }
        }
    } else if from.exists() {
        if let Some(parent) = to.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::copy(from, to)?;
    }
    Ok(())
}
