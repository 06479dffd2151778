//! The thread that brings the index up to the journal, behind the commits.
//!
//! Collected writes of one row reach sled as one. If the index fails, commits are refused and the index is rebuilt
//! from the last snapshot and the journal, repeatedly until that works.

use crate::{
    Error, Sequence,
    embedded::{
        index::merged,
        recovery::rebuild,
        shared::{Component, RunMode, Shared, lower_priority},
    },
    sync::{lock_unpoisoned, write_unpoisoned},
};
use std::{
    sync::{Arc, atomic::Ordering},
    thread,
    time::Duration,
};

/// The most journalled bytes that are merged before they go to the index. It is large because a running execution
/// rewrites its record and its tasks with every step, and merged rewrites reach sled once or never.
const MERGE_BYTES: usize = 32 << 20;
/// At this backlog, waiting for more is useless; it is below half of the limit, so that commits do not wait.
const URGENT_BYTES: usize = 24 << 20;

/// Applies frames until stopped.
pub(crate) fn run(shared: &Arc<Shared>) {
    lower_priority();
    loop {
        let seen = shared.published.count();
        let run_mode = shared.run_mode();
        let waiting = shared.memtable().bytes();
        match run_mode {
            RunMode::Stop => return,
            RunMode::Drain if waiting == 0 || shared.problem(Component::Index).is_some() => return,
            RunMode::Run if waiting == 0 => {
                shared.published.wait(seen, shared.options.tick);
                continue;
            }
            RunMode::Run if waiting < URGENT_BYTES => wait_for_more(shared),
            RunMode::Run | RunMode::Drain => {}
        }
        if shared.run_mode() == RunMode::Stop {
            return;
        }
        if let Err(error) = step(shared) {
            shared.report(
                Component::Index,
                format!("{error}; it is being rebuilt; commits are refused until then"),
            );
            recover(shared);
        }
        shared.applied.notify();
    }
}

/// Lets writes accumulate, unless a caller is waiting.
fn wait_for_more(shared: &Shared) {
    const SLICE: Duration = Duration::from_millis(10);
    let mut left = shared.options.index_delay;
    while !left.is_zero() && shared.run_mode() == RunMode::Run && shared.memtable().bytes() < URGENT_BYTES {
        thread::sleep(left.min(SLICE));
        left = left.saturating_sub(SLICE);
    }
}

fn step(shared: &Shared) -> Result<(), Error> {
    while shared.options.faults.stalls_index() && shared.run_mode() != RunMode::Stop {
        thread::sleep(Duration::from_millis(5));
    }
    if shared.options.faults.fails_index() {
        return Err(Error::Unavailable { why: "the index failed on purpose".into() });
    }
    let frames = shared.memtable().oldest(MERGE_BYTES);
    let (rows, upto) = merged(&frames, Sequence(0))?;
    shared.index().apply(&rows, upto)?;
    shared.memtable_mut().remove_applied(upto);
    shared.counters.index_progress.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn recover(shared: &Arc<Shared>) {
    while shared.run_mode() == RunMode::Run {
        thread::sleep(shared.options.tick);
        if shared.options.faults.fails_index() {
            continue;
        }
        let files = lock_unpoisoned(&shared.files);
        let acknowledged = shared.memtable().last();
        let rebuilt = rebuild(&shared.dir, &shared.options, shared.opens, acknowledged);
        drop(files);
        shared.counters.index_progress.fetch_add(1, Ordering::Relaxed);
        match rebuilt {
            Ok(index) => {
                let applied = index.applied();
                let mut place = write_unpoisoned(&shared.index);
                let failed = std::mem::replace(&mut *place, Arc::new(index));
                drop(place);
                // Dropping a broken sled may take forever.
                let dropped = thread::Builder::new().name("store-drop".into()).spawn(move || drop(failed));
                drop(dropped);
                shared.memtable_mut().remove_applied(applied);
                shared.resolve(Component::Index);
                return;
            }
            Err(error) => tracing::error!("the index cannot be rebuilt yet: {error}"),
        }
    }
}
