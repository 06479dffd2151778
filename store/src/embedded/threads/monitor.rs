//! The thread that monitors the others: free space, the watermark of acknowledged commits, and a stalled index.

use crate::{
    Sequence,
    embedded::{
        folder::watermark::{Watermark, Writer},
        shared::{Component, RunMode, Shared},
    },
    sync::lock_unpoisoned,
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Checks once per tick until stopped.
pub(crate) fn run(shared: &Arc<Shared>, head: &Writer) {
    let tick = shared.options.tick;
    let mut written = Sequence(0);
    let mut seen = None;
    let mut still = Duration::ZERO;
    let mode_changed = shared.mode_changed.count();
    while shared.run_mode() == RunMode::Run {
        shared.space.refresh(&shared.options);
        match shared.space.problem() {
            Some(problem) => shared.report(Component::Space, problem),
            None => shared.resolve(Component::Space),
        }
        let sequence = shared.memtable().last();
        if sequence != written && head.write(Watermark { sequence, opens: shared.opens }).is_ok() {
            written = sequence;
        }
        compact(shared);
        let progress = shared.counters.index_progress.load(Ordering::Relaxed);
        let failed = shared.problem(Component::Index).is_some();
        let idle = shared.memtable().bytes() == 0 && !failed;
        // Time counts only between two checks that both found it at the same work.
        still = if idle || seen != Some(progress) { Duration::ZERO } else { still.saturating_add(tick) };
        seen = (!idle).then_some(progress);
        // Rebuilding the index takes longer than a batch, and its thread counts attempts, not rows.
        let limit = shared.options.watchdog.saturating_mul(if failed { 10 } else { 1 });
        if still >= limit {
            stalled(shared);
            return;
        }
        shared.mode_changed.wait(mode_changed, tick);
    }
}

fn compact(shared: &Shared) {
    let tasks = lock_unpoisoned(&shared.tasks);
    let compacted = lock_unpoisoned(&shared.deliveries).compact(&tasks);
    drop(tasks);
    if let Err(error) = compacted {
        shared.report(Component::Deliveries, format!("delivery counts cannot be written: {error}"));
    }
}

/// The index hangs, as sled can. It cannot be stopped from outside, but it can be abandoned: the process ends, and
/// the next opening rebuilds the index.
fn stalled(shared: &Shared) {
    let why = format!(
        "the index in {} has made no progress for {:?}; the process ends, and the next start rebuilds the index",
        shared.index().folder().display(),
        shared.options.watchdog
    );
    if let Err(error) = std::fs::write(shared.dir.join("index.stale"), &why) {
        tracing::error!("cannot mark the index as stale: {error}");
    }
    shared.report(Component::Index, why.clone());
    (shared.options.on_stall)(&why);
}
