//! Checkpoints: a snapshot of the index, and the end of the journal before it. Commits go on meanwhile.

use crate::embedded::{
    commit::apply::locked,
    format::{codec, key},
    index::{Index, Spread},
    journal::segment,
    shared::{Course, Part, Shared, gives_way},
    snapshot::{self, Extent},
};
use crate::{Error, Sequence};
use std::{
    fs, io,
    ops::Bound,
    path::Path,
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};
use tokio::sync::oneshot;

/// Who waits for a checkpoint.
pub(crate) type Wanted = oneshot::Sender<Result<Sequence, Error>>;

/// Writes checkpoints when they are due or wanted.
pub(crate) fn run(shared: &Arc<Shared>, wanted: &Receiver<Wanted>) {
    gives_way();
    while shared.course() == Course::Run {
        match wanted.recv_timeout(shared.options.tick) {
            Ok(reply) => {
                let _ = reply.send(catch_up(shared).and_then(|()| checkpoint(shared)));
            }
            Err(RecvTimeoutError::Timeout) if is_due(shared) => {
                match checkpoint(shared) {
                    Ok(_) => shared.resolve(Part::Checkpoint),
                    Err(error) => {
                        shared.report(Part::Checkpoint, format!("no checkpoint can be written: {error}"))
                    }
                };
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn is_due(shared: &Shared) -> bool {
    let snapshot = shared.counters.snapshot.load(Ordering::Relaxed);
    let threshold = shared.options.checkpoint_after_bytes.max(snapshot);
    shared.counters.since_checkpoint.load(Ordering::Relaxed) >= threshold
}

/// Waits until the index has what was acknowledged before.
fn catch_up(shared: &Shared) -> Result<(), Error> {
    let target = shared.overlay().last();
    loop {
        let seen = shared.applied.count();
        if shared.index().applied() >= target {
            return Ok(());
        }
        if let Some(why) = shared.problem(Part::Index) {
            return Err(Error::Unavailable { why });
        }
        if shared.course() == Course::Stop {
            return Err(Error::Unavailable { why: "the store is closing".into() });
        }
        shared.applied.wait(seen, Duration::from_millis(100));
    }
}

fn checkpoint(shared: &Shared) -> Result<Sequence, Error> {
    let before = shared.counters.since_checkpoint.swap(0, Ordering::Relaxed);
    let _files = locked(&shared.files);
    let written = write(&shared.dir, &shared.index(), || shared.overlay().last());
    let result = written.and_then(|(applied, bytes)| {
        shared.counters.snapshot.store(bytes, Ordering::Relaxed);
        shared.counters.written.fetch_add(bytes, Ordering::Relaxed);
        prune(&shared.dir, applied).map_err(|error| failed(&shared.dir, &error))?;
        Ok(applied)
    });
    if result.is_err() {
        shared.counters.since_checkpoint.fetch_add(before, Ordering::Relaxed);
    }
    result
}

fn failed(dir: &Path, error: &io::Error) -> Error {
    let why = format!("a checkpoint in {} failed: {error}", dir.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Error::Full { what: why },
        _ => Error::Unavailable { why },
    }
}

/// Writes a snapshot of `index`; returns the commit it holds everything up to, and its length in bytes. What
/// `touched` says in the end, nothing later had a share in the index.
pub(crate) fn write(
    dir: &Path,
    index: &Index,
    touched: impl FnOnce() -> Sequence,
) -> Result<(Sequence, u64), Error> {
    const STEP: usize = 256;
    let account = index.account();
    let mut writer = snapshot::Writer::create(dir).map_err(|error| failed(dir, &error))?;
    let (mut from, mut spread) = (Bound::Unbounded, Spread::default());
    loop {
        let rows = index.range(from.as_ref().map(Vec::as_slice), &[key::CHUNK], STEP)?;
        for (key, value) in &rows {
            // A row that is not whole must not displace the snapshot that may still have it.
            codec::check(key, value.as_ref())
                .map_err(|why| Error::Corrupt { what: codec::describe(key), why })?;
            writer.put(key, value.as_ref()).map_err(|error| failed(dir, &error))?;
            spread.note(key);
        }
        match rows.last() {
            Some((key, _)) if rows.len() == STEP => from = Bound::Excluded(key.to_vec()),
            Some(_) | None => break,
        }
    }
    index.let_go(&spread)?;
    let extent = Extent { applied: account.applied, touched: touched(), opens: account.opens, rows: 0 };
    let bytes = writer.finish(dir, extent).map_err(|error| failed(dir, &error))?;
    Ok((account.applied, bytes))
}

/// Removes the snapshots before that of `applied`, and the segments that end before it.
pub(crate) fn prune(dir: &Path, applied: Sequence) -> io::Result<()> {
    for (of, path) in snapshot::list(dir)? {
        if of < applied {
            fs::remove_file(path)?;
        }
    }
    let segments = segment::list(dir)?;
    for ((_, path), (next, _)) in segments.iter().zip(segments.iter().skip(1)) {
        if next.0 <= applied.0.saturating_add(1) {
            fs::remove_file(path)?;
        }
    }
    Ok(())
}
