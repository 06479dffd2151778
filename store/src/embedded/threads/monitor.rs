//! The thread that looks after the others: free space, the hint of how far commits were acknowledged, and an index
//! that stands still.

use crate::Sequence;
use crate::embedded::{
    commit::apply::locked,
    folder::watermark::{Head, Writer},
    shared::{Course, Part, Shared},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

/// Looks once per tick until told to stop.
pub(crate) fn run(shared: &Arc<Shared>, head: &Writer) {
    let tick = shared.options.tick;
    let mut written = Sequence(0);
    let mut seen = None;
    let mut still = Duration::ZERO;
    let steered = shared.steered.count();
    while shared.course() == Course::Run {
        shared.space.look(&shared.options);
        match shared.space.problem() {
            Some(problem) => shared.report(Part::Space, problem),
            None => shared.resolve(Part::Space),
        }
        let sequence = shared.overlay().last();
        if sequence != written && head.write(Head { sequence, opens: shared.opens }).is_ok() {
            written = sequence;
        }
        compact(shared);
        let progress = shared.counters.index_progress.load(Ordering::Relaxed);
        let failed = shared.problem(Part::Index).is_some();
        let idle = shared.overlay().bytes() == 0 && !failed;
        // Time counts only between two looks that both found it at the same work.
        still = if idle || seen != Some(progress) { Duration::ZERO } else { still.saturating_add(tick) };
        seen = (!idle).then_some(progress);
        // Making the index anew takes longer than a batch, and its thread counts attempts, not rows.
        let limit = shared.options.watchdog.saturating_mul(if failed { 10 } else { 1 });
        if still >= limit {
            stalled(shared);
            return;
        }
        shared.steered.wait(steered, tick);
    }
}

fn compact(shared: &Shared) {
    let tasks = locked(&shared.tasks);
    let compacted = locked(&shared.deliveries).compact(&tasks);
    drop(tasks);
    if let Err(error) = compacted {
        shared.report(Part::Deliveries, format!("deliveries cannot be noted: {error}"));
    }
}

/// The index hangs, as sled can. It cannot be stopped from outside, but it can be left behind: the process ends, and
/// the next opening makes the index anew.
fn stalled(shared: &Shared) {
    let why = format!(
        "the index in {} has made no progress for {:?}; the process ends, and the next start makes the index anew",
        shared.index().folder().display(),
        shared.options.watchdog
    );
    if let Err(error) = std::fs::write(shared.dir.join("index.stale"), &why) {
        tracing::error!("cannot mark the index as stale: {error}");
    }
    shared.report(Part::Index, why.clone());
    (shared.options.on_stall)(&why);
}
