//! Opening the index: on a thread of its own, since sled may panic or hang on damaged files, and with a full scan.

use super::{Account, Index, guarded};
use crate::{
    Error,
    embedded::{key, options::Options},
};
use std::{
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// An index found on opening.
pub(crate) struct Verified {
    pub(crate) index: Index,
    pub(crate) account: Account,
}

/// What became of opening an index.
pub(crate) enum Verdict {
    /// Its rows are exactly those of its account; or it is empty and without one.
    Whole(Verified),
    /// It must be thrown away, and why.
    Unusable(String),
}

/// Opens the index in `folder`, or makes it, and proves it whole.
pub(crate) fn open_verified(folder: &Path, options: &Options) -> Verdict {
    let (report, verdict) = mpsc::sync_channel(1);
    let progress = Arc::new(AtomicU64::new(0));
    let at_work = {
        let (folder, options, progress) = (folder.to_owned(), options.clone(), progress.clone());
        thread::Builder::new().name("store-open".into()).spawn(move || {
            let verdict = open(&folder, &options, &progress).map_err(|error| error.to_string());
            // If nobody waits any more, the index was given up; whatever dropping it does happens here.
            let _ = report.send(verdict);
        })
    };
    if let Err(error) = at_work {
        return Verdict::Unusable(format!("no thread to open it: {error}"));
    }
    let mut seen = 0;
    loop {
        match verdict.recv_timeout(options.open_stall.max(Duration::from_millis(1))) {
            Ok(Ok(found)) => return Verdict::Whole(found),
            Ok(Err(why)) => return Verdict::Unusable(why),
            Err(RecvTimeoutError::Disconnected) => return Verdict::Unusable("opening it panicked".into()),
            Err(RecvTimeoutError::Timeout) => {
                let rows = progress.load(Ordering::Relaxed);
                if rows == seen {
                    return Verdict::Unusable(format!(
                        "opening it did not move for {:?}",
                        options.open_stall
                    ));
                }
                seen = rows;
            }
        }
    }
}

fn open(folder: &Path, options: &Options, progress: &AtomicU64) -> Result<Verified, Error> {
    if options.faults.hang_open() {
        thread::sleep(Duration::from_secs(3600));
    }
    let config =
        sled::Config::default().path(folder).cache_capacity(options.cache_bytes).flush_every_ms(None);
    let db = guarded(|| config.open())?;
    let unusable = |why: &str| Err(Error::Unavailable { why: why.into() });
    let account = match guarded(|| db.get(key::META))? {
        Some(value) => match Account::decode(&value) {
            Ok(account) => Some(account),
            Err(why) => return unusable(&format!("its account of itself is unreadable: {why}")),
        },
        None => None,
    };
    let mut counted = Account::default();
    guarded(|| {
        for row in db.iter() {
            let (key, value) = row?;
            progress.fetch_add(1, Ordering::Relaxed);
            if key != key::META {
                counted.add(&key, &value);
            }
        }
        Ok(())
    })?;
    if !account.unwrap_or_default().same_rows(&counted) {
        let rows = account.unwrap_or_default().rows;
        return unusable(&format!("it holds {} rows that are not the {rows} it should hold", counted.rows));
    }
    let account = account.unwrap_or_default();
    let index = Index { db, account: Mutex::new(account), folder: folder.to_owned() };
    Ok(Verified { index, account })
}
