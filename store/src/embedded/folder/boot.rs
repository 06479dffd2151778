//! The file `BOOT`, which shows whether unsynced writes may be lost: it names the boot of the machine in which the
//! store was opened.
//!
//! After a kill the machine still has unsynced writes; after a power cut, or on another machine, it does not.
//! Invariant: the file contains `closed` only after everything in the folder was synced. Unknown content counts as
//! lost.

use super::super::journal::segment::sync_folder;
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

/// The Linux id of the current boot.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The content after an orderly close.
const CLOSED: &str = "closed";

fn path(dir: &Path) -> PathBuf {
    dir.join("BOOT")
}

/// Returns the content while the store is open in this boot, or `None` if the machine has no boot id.
fn open_now() -> Option<String> {
    let id = fs::read_to_string(BOOT_ID).ok()?;
    let id = id.trim();
    (!id.is_empty()).then(|| format!("open {id}"))
}

/// Returns true if unsynced writes to `dir` may be lost: it was not closed, and the machine was rebooted since. Also
/// returns true without a file, as after an earlier version.
pub(crate) fn may_have_lost_writes(dir: &Path) -> bool {
    let Ok(said) = fs::read_to_string(path(dir)) else { return true };
    let said = said.trim();
    said != CLOSED && open_now().is_none_or(|now| said != now)
}

/// Records that the store is open in this boot. Durable when it returns.
pub(crate) fn opened(dir: &Path) -> io::Result<()> {
    write(dir, &open_now().unwrap_or_else(|| "open".to_owned()))
}

/// Records that everything in the folder is synced. Durable when it returns.
pub(crate) fn closed(dir: &Path) -> io::Result<()> {
    write(dir, CLOSED)
}

fn write(dir: &Path, says: &str) -> io::Result<()> {
    let temporary = dir.join("BOOT.partial");
    let mut file = File::create(&temporary)?;
    file.write_all(format!("{says}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(temporary, path(dir))?;
    sync_folder(dir)
}

/// Removes the file in `dir`, if there is one.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_file(path(dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
