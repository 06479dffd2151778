//! Opens the index: on its own thread, because sled may panic or hang on damaged files, and with a full scan.

use crate::{
    Error,
    embedded::{
        format::key,
        index::{Index, IndexStats, Progress, full_scan::scan, guarded},
        options::Options,
    },
};
use std::{path::Path, sync::Mutex, thread, time::Duration};

/// An index found on opening.
pub(crate) struct Verified {
    pub(crate) index: Index,
    pub(crate) stats: IndexStats,
}

/// The result of opening an index.
pub(crate) enum Verdict {
    /// Its rows match its statistics, or it is empty without statistics.
    Whole(Box<Verified>),
    /// It must be deleted, for this reason.
    Unusable(String),
}

/// Opens or creates the index in `folder`, and proves it complete.
pub(crate) fn open_verified(folder: &Path, options: &Options, progress: &Progress) -> Verdict {
    let (folder, mine, its) = (folder.to_owned(), options.clone(), progress.clone());
    match progress.watch(options.open_stall, move || open(&folder, &mine, &its)) {
        Some(Ok(found)) => Verdict::Whole(Box::new(found)),
        Some(Err(error)) => Verdict::Unusable(error.to_string()),
        None => Verdict::Unusable(format!("opening it made no progress for {:?}", options.open_stall)),
    }
}

fn open(folder: &Path, options: &Options, progress: &Progress) -> Result<Verified, Error> {
    if options.faults.hang_open() {
        thread::sleep(Duration::from_secs(3600));
    }
    let config =
        sled::Config::default().path(folder).cache_capacity(options.cache_bytes).flush_every_ms(None);
    let db = guarded(|| config.open())?;
    let unusable = |why: &str| Err(Error::Unavailable { why: why.into() });
    let stats = match guarded(|| db.get(key::META))? {
        Some(value) => match IndexStats::decode(&value) {
            Ok(stats) => Some(stats),
            Err(why) => return unusable(&format!("its statistics are unreadable: {why}")),
        },
        None => None,
    };
    let counted = guarded(|| scan(&db, progress))?;
    if !stats.unwrap_or_default().same_rows(&counted) {
        let rows = stats.unwrap_or_default().rows;
        return unusable(&format!("it has {} rows instead of {rows}", counted.rows));
    }
    let stats = stats.unwrap_or_default();
    let index = Index {
        db: Some(db),
        progress: progress.clone(),
        stats: Mutex::new(stats),
        folder: folder.to_owned(),
        faults: options.faults.clone(),
    };
    Ok(Verified { index, stats })
}
