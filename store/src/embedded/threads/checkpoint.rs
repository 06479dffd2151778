//! Checkpoints: a snapshot of the index, and the end of the journal before it. Commits continue meanwhile.

use crate::{
    Error, Sequence,
    embedded::{
        shared::{Component, RunMode, Shared, lower_priority},
        snapshot::take,
    },
    sync::lock_unpoisoned,
};
use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    time::Duration,
};
use tokio::sync::oneshot;

/// The waiting callers of a checkpoint.
pub(crate) type Wanted = oneshot::Sender<Result<Sequence, Error>>;

/// Writes checkpoints when they are due or requested.
pub(crate) fn run(shared: &Arc<Shared>, wanted: &Receiver<Wanted>) {
    lower_priority();
    while shared.run_mode() == RunMode::Run {
        match wanted.recv_timeout(shared.options.tick) {
            Ok(reply) => {
                let _ = reply.send(catch_up(shared).and_then(|()| checkpoint(shared)));
            }
            Err(RecvTimeoutError::Timeout) if is_due(shared) => {
                match checkpoint(shared) {
                    Ok(_) => shared.resolve(Component::Checkpoint),
                    Err(error) => {
                        shared.report(Component::Checkpoint, format!("no checkpoint can be written: {error}"))
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

/// Waits until the index has all earlier acknowledged commits.
fn catch_up(shared: &Shared) -> Result<(), Error> {
    let target = shared.memtable().last();
    loop {
        let seen = shared.applied.count();
        if shared.index().applied() >= target {
            return Ok(());
        }
        if let Some(why) = shared.problem(Component::Index) {
            return Err(Error::Unavailable { why });
        }
        if shared.run_mode() == RunMode::Stop {
            return Err(Error::Unavailable { why: "the store is closing".into() });
        }
        shared.applied.wait(seen, Duration::from_millis(100));
    }
}

fn checkpoint(shared: &Shared) -> Result<Sequence, Error> {
    let before = shared.counters.since_checkpoint.swap(0, Ordering::Relaxed);
    let _files = lock_unpoisoned(&shared.files);
    let written = take::write(&shared.dir, &shared.index(), || shared.memtable().last());
    let result = written.and_then(|(applied, bytes)| {
        shared.counters.snapshot.store(bytes, Ordering::Relaxed);
        shared.counters.written.fetch_add(bytes, Ordering::Relaxed);
        take::prune(&shared.dir, applied).map_err(|error| take::failed(&shared.dir, &error))?;
        Ok(applied)
    });
    if result.is_err() {
        shared.counters.since_checkpoint.fetch_add(before, Ordering::Relaxed);
    }
    result
}
