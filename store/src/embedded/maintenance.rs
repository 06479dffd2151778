//! The hold of an embedded store: the file `HELD`, which exists as long as no task may be leased.

use crate::{
    Error, Hold, Timestamp,
    embedded::{folder::deliveries, journal::segment::sync_folder, shared::Shared},
    sync::lock_unpoisoned,
};
use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

fn path(dir: &Path) -> PathBuf {
    dir.join("HELD")
}

/// Returns the hold of the store in `dir`. An unreadable file holds it too.
pub(crate) fn read(dir: &Path) -> io::Result<Option<Hold>> {
    match fs::read(path(dir)) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).unwrap_or_else(|error| Hold {
            since: Timestamp(0),
            why: format!("the file {} is invalid: {error}", path(dir).display()),
        }))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Holds the store in `dir`, durably.
pub(crate) fn write(dir: &Path, hold: &Hold) -> io::Result<()> {
    let temporary = dir.join("HELD.partial");
    let mut file = File::create(&temporary)?;
    file.write_all(&serde_json::to_vec(hold)?)?;
    file.sync_all()?;
    fs::rename(temporary, path(dir))?;
    sync_folder(dir)
}

/// Releases the store in `dir`, if it is held.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_file(path(dir)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| sync_folder(dir)),
    }
}

impl Shared {
    /// Counts every task as delivered before, then stops leasing. In this order, a crash between the two causes at
    /// most one additional probe.
    pub(crate) fn hold(&self, hold: Hold) -> Result<(), Error> {
        let mut held = lock_unpoisoned(&self.hold);
        if held.is_some() {
            return Ok(());
        }
        let failed = |error: io::Error| Error::Unavailable {
            why: format!("the store in {} cannot be held: {error}", self.dir.display()),
        };
        let mut tasks = lock_unpoisoned(&self.tasks);
        tasks.count_all();
        let log = deliveries::Log::open(&self.dir, &tasks).map_err(failed)?;
        log.sync().map_err(failed)?;
        *lock_unpoisoned(&self.deliveries) = log;
        write(&self.dir, &hold).map_err(failed)?;
        *held = Some(hold);
        Ok(())
    }

    pub(crate) fn unhold(&self, since: Timestamp) -> Result<bool, Error> {
        let mut held = lock_unpoisoned(&self.hold);
        if held.as_ref().is_none_or(|hold| hold.since != since) {
            return Ok(false);
        }
        let failed = |error: io::Error| Error::Unavailable {
            why: format!("the store in {} cannot be released: {error}", self.dir.display()),
        };
        remove(&self.dir).map_err(failed)?;
        *held = None;
        Ok(true)
    }

    pub(crate) fn is_held(&self) -> bool {
        lock_unpoisoned(&self.hold).is_some()
    }
}
