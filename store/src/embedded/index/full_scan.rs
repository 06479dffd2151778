//! Counts every row of the index, with one thread for each core.

use super::{CacheTrim, IndexStats, Progress};
use crate::embedded::format::key;
use sled::Db;
use std::{
    num::NonZero,
    ops::Bound,
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

/// More threads would wait for the disk.
const THREADS: usize = 4;
/// The number of parts into which the rows of a kind are split.
const PARTS_A_KIND: u8 = 16;

/// The count of one thread.
#[derive(Default)]
struct PartialCount {
    stats: IndexStats,
    trim: CacheTrim,
}

impl PartialCount {
    fn add(&mut self, key: &[u8], value: &[u8]) {
        self.stats.add(key, value);
        self.trim.sample_key(key);
    }
}

/// Returns the statistics of the existing rows. Leaves no more of them in memory than the cache may hold.
pub(super) fn scan(db: &Db, progress: &Progress) -> sled::Result<IndexStats> {
    let cuts = cuts(db)?;
    let next = AtomicUsize::new(0);
    let count = || -> sled::Result<PartialCount> {
        let mut partial = PartialCount::default();
        loop {
            let part = next.fetch_add(1, Ordering::Relaxed);
            if part > cuts.len() {
                return Ok(partial);
            }
            let from = part.checked_sub(1).and_then(|before| cuts.get(before));
            let (from, to) = (
                from.map_or(Bound::Unbounded, Bound::Included),
                cuts.get(part).map_or(Bound::Unbounded, Bound::Excluded),
            );
            for row in db.range::<&Vec<u8>, _>((from, to)) {
                let (key, value) = row?;
                progress.record_progress();
                if key != key::META {
                    partial.add(&key, &value);
                }
            }
        }
    };
    let others = thread::available_parallelism().map_or(1, NonZero::get).min(THREADS).saturating_sub(1);
    let partials = thread::scope(|scope| {
        let others: Vec<_> = (0..others).map(|_| scope.spawn(count)).collect();
        let mine = count();
        // A panic of sled continues here, and is caught by the caller.
        let theirs = others.into_iter().map(|other| other.join().unwrap_or_else(|why| resume_unwind(why)));
        theirs.chain([mine]).collect::<sled::Result<Vec<_>>>()
    })?;
    let mut stats = IndexStats::default();
    for partial in partials {
        stats.join(&partial.stats);
        partial.trim.trim_cache(db, || progress.record_progress())?;
    }
    Ok(stats)
}

/// Returns keys, in order, with about equal numbers of rows between them. It is an estimate, and only affects the
/// time: ids of executions begin with their time.
fn cuts(db: &Db) -> sled::Result<Vec<Vec<u8>>> {
    let mut cuts = Vec::new();
    let mut from = Some(0_u8);
    while let Some(least) = from {
        let Some((first, _)) = db.range([least]..).next().transpose()? else { break };
        let kind = first.first().copied().unwrap_or(least);
        from = kind.checked_add(1);
        let last = match from {
            Some(above) => db.range(..[above]).next_back().transpose()?,
            None => db.last()?,
        };
        // The first block of a kind has the key of the kind itself, which does not show where its rows are.
        let second =
            db.range::<[u8; 1], _>((Bound::Excluded([kind]), Bound::Unbounded)).next().transpose()?;
        let low =
            second.map_or(0, |(second, _)| if second.first() == Some(&kind) { number(&second) } else { 0 });
        let high = last.map_or(0, |(last, _)| number(&last));
        let step = high.saturating_sub(low) / u128::from(PARTS_A_KIND);
        let parts = if step == 0 { 1 } else { PARTS_A_KIND };
        for part in 0..parts {
            let at = low.saturating_add(step.saturating_mul(u128::from(part)));
            cuts.push([&[kind][..], &at.to_be_bytes()].concat());
        }
    }
    Ok(cuts)
}

/// Returns the part of a key after its kind, as a number that sorts the same way.
fn number(key: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    for (byte, found) in bytes.iter_mut().zip(key.iter().skip(1)) {
        *byte = *found;
    }
    u128::from_be_bytes(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn every_row_is_counted_once_wherever_the_scan_is_split(
            rows in prop::collection::btree_map(prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(any::<u8>(), 0..40), 0..400),
        ) {
            let db = sled::Config::default().temporary(true).open().unwrap();
            let mut expected = IndexStats::default();
            for (key, value) in &rows {
                db.insert(key, value.as_slice()).unwrap();
                if key != key::META {
                    expected.add(key, value);
                }
            }
            let cuts = cuts(&db).unwrap();
            prop_assert!(cuts.is_sorted());
            prop_assert!(scan(&db, &Progress::default()).unwrap().same_rows(&expected));
        }
    }
}
