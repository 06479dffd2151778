//! The thread that brings the index up to the journal, behind the commits.
//!
//! Writes of one row that pile up meanwhile reach sled as one. If the index fails, commits are refused and the index
//! is made anew from the last snapshot and the journal, again and again until that works.

use crate::embedded::{
    commit::apply::locked,
    index::Rows,
    journal::frame::Frame,
    recovery::rebuild,
    shared::{Course, Part, Shared, gives_way},
};
use crate::{Error, Sequence};
use std::{
    sync::{Arc, PoisonError, atomic::Ordering},
    thread,
    time::Duration,
};

/// At most so many journalled bytes are merged before they go to the index. Large, since an execution under way writes its record and its
/// tasks again with every step: what is merged reaches sled once, or never.
const MERGE_BYTES: usize = 32 << 20;
/// With so much waiting, nothing is gained by waiting for more; below half of what may wait, so that commits do not.
const HURRY_BYTES: usize = 24 << 20;

/// Takes over frames until told to stop.
pub(crate) fn run(shared: &Arc<Shared>) {
    gives_way();
    loop {
        let seen = shared.published.count();
        let course = shared.course();
        let waiting = shared.overlay().bytes();
        match course {
            Course::Stop => return,
            Course::Drain if waiting == 0 || shared.problem(Part::Index).is_some() => return,
            Course::Run if waiting == 0 => {
                shared.published.wait(seen, shared.options.tick);
                continue;
            }
            Course::Run if waiting < HURRY_BYTES => linger(shared),
            Course::Run | Course::Drain => {}
        }
        if shared.course() == Course::Stop {
            return;
        }
        if let Err(error) = step(shared) {
            shared.report(
                Part::Index,
                format!("{error}; it is being made anew, commits are refused until then"),
            );
            recover(shared);
        }
        shared.applied.ring();
    }
}

/// Lets more writes pile up, unless somebody is in a hurry.
fn linger(shared: &Shared) {
    const SLICE: Duration = Duration::from_millis(10);
    let mut left = shared.options.index_delay;
    while !left.is_zero() && shared.course() == Course::Run && shared.overlay().bytes() < HURRY_BYTES {
        thread::sleep(left.min(SLICE));
        left = left.saturating_sub(SLICE);
    }
}

fn step(shared: &Shared) -> Result<(), Error> {
    while shared.options.faults.stalls_index() && shared.course() != Course::Stop {
        thread::sleep(Duration::from_millis(5));
    }
    if shared.options.faults.fails_index() {
        return Err(Error::Unavailable { why: "the index failed on purpose".into() });
    }
    let frames = shared.overlay().oldest(MERGE_BYTES);
    let (rows, upto) = merged(&frames, Sequence(0))?;
    shared.index().apply(&rows, upto)?;
    shared.overlay_mut().retire(upto);
    shared.counters.index_progress.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

/// The rows of `frames` behind commit `after`, the last write of each key, and the last commit among them.
pub(crate) fn merged(frames: &[Arc<Frame>], after: Sequence) -> Result<(Rows<'_>, Sequence), Error> {
    let mut rows = Rows::new();
    let mut upto = after;
    for frame in frames {
        for row in frame.rows() {
            let row = row.ok_or_else(|| Error::Corrupt {
                what: format!("the frame of commit {}", frame.header.first.0),
                why: "its rows are malformed".into(),
            })?;
            if row.sequence > after {
                rows.insert(row.key, row.value);
            }
        }
        upto = upto.max(frame.header.last());
    }
    Ok((rows, upto))
}

fn recover(shared: &Arc<Shared>) {
    while shared.course() == Course::Run {
        thread::sleep(shared.options.tick);
        if shared.options.faults.fails_index() {
            continue;
        }
        let files = locked(&shared.files);
        let acknowledged = shared.overlay().last();
        let rebuilt = rebuild(&shared.dir, &shared.options, shared.opens, acknowledged);
        drop(files);
        shared.counters.index_progress.fetch_add(1, Ordering::Relaxed);
        match rebuilt {
            Ok(index) => {
                let applied = index.applied();
                let mut place = shared.index.write().unwrap_or_else(PoisonError::into_inner);
                let failed = std::mem::replace(&mut *place, Arc::new(index));
                drop(place);
                // Dropping a broken sled may take for ever.
                let dropped = thread::Builder::new().name("store-drop".into()).spawn(move || drop(failed));
                drop(dropped);
                shared.overlay_mut().retire(applied);
                shared.resolve(Part::Index);
                return;
            }
            Err(error) => tracing::error!("the index cannot be made anew yet: {error}"),
        }
    }
}
