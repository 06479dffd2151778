//! The acknowledged rows that the index has not applied yet.
//!
//! A read looks here first and then in the index, in that order: rows leave the memtable only after the index has
//! them, so whatever was acknowledged before the read began is found in one of the two.

use crate::{
    Sequence,
    embedded::journal::frame::{Frame, Place},
};
use std::{
    collections::{BTreeMap, HashSet, VecDeque},
    ops::Bound,
    sync::Arc,
};

/// The bytes of a stored value, wherever they are.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Journalled(Arc<Frame>, std::ops::Range<usize>),
    Indexed(Vec<u8>),
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Journalled(frame, place) => frame.bytes.get(place.clone()).unwrap_or_default(),
            Self::Indexed(value) => value,
        }
    }
}

/// A key and the position of its value in the current frame.
pub(crate) type Changed = BTreeMap<Box<[u8]>, (Sequence, Place)>;

/// The most keys cached as absent. At this size the cache is cleared.
const ABSENT_LIMIT: usize = 1_024;

struct Slot {
    sequence: Sequence,
    value: Option<Value>,
}

/// Rows by key, and the frames they are from in the order of commits.
#[derive(Default)]
pub(crate) struct Memtable {
    rows: BTreeMap<Box<[u8]>, Slot>,
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    last: Sequence,
    /// Keys that were looked up lately and do not exist, here or in the index. The documents of limits usually do not
    /// exist, and every attempt looks them up.
    absent: HashSet<Box<[u8]>>,
    removals: u64,
}

impl Memtable {
    /// A memtable over an index that holds everything up to `last`.
    pub(crate) fn new(last: Sequence) -> Self {
        Self { last, ..Self::default() }
    }

    /// The last acknowledged commit.
    pub(crate) fn last(&self) -> Sequence {
        self.last
    }

    /// Bytes of the frames that wait for the index.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn publish(&mut self, frame: Arc<Frame>, changed: Changed) {
        self.last = frame.header.last();
        self.bytes = self.bytes.saturating_add(frame.bytes.len());
        for (key, (sequence, place)) in changed {
            self.absent.remove(&key);
            let value = place.map(|place| Value::Journalled(frame.clone(), place));
            self.rows.insert(key, Slot { sequence, value });
        }
        self.frames.push_back(frame);
    }

    /// Returns `None` if the memtable has no row of `key`, `Some(None)` if it was deleted.
    #[allow(clippy::option_option, reason = "the two levels have the meanings described above")]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<Value>> {
        self.rows.get(key).map(|slot| slot.value.clone())
    }

    /// Returns true if `key` is known to be absent.
    pub(crate) fn is_absent(&self, key: &[u8]) -> bool {
        self.absent.contains(key)
    }

    /// Returns how often rows have left. Read it before looking up a key that may be absent.
    pub(crate) fn removals(&self) -> u64 {
        self.removals
    }

    /// Records that `key` was found neither here nor in the index, when rows had left `removals` times. A new row
    /// would be here, unless it has left again, and then the finding is ignored.
    pub(crate) fn cache_absent(&mut self, key: &[u8], removals: u64) {
        if removals != self.removals || self.rows.contains_key(key) {
            return;
        }
        if self.absent.len() >= ABSENT_LIMIT {
            self.absent.clear();
        }
        self.absent.insert(key.into());
    }

    /// Up to `limit` rows between `from` and `to`, deleted ones included.
    pub(crate) fn range(
        &self,
        from: Bound<&[u8]>,
        to: &[u8],
        limit: usize,
    ) -> Vec<(Box<[u8]>, Option<Value>)> {
        let start = match from {
            Bound::Included(key) | Bound::Excluded(key) => key,
            Bound::Unbounded => &[],
        };
        if start >= to {
            return Vec::new();
        }
        let rows = self.rows.range::<[u8], _>((from, Bound::Excluded(to)));
        rows.take(limit).map(|(key, slot)| (key.clone(), slot.value.clone())).collect()
    }

    /// Up to `limit` keys between `from` and `to`, those of deleted rows included.
    pub(crate) fn keys(&self, from: Bound<&[u8]>, to: &[u8], limit: usize) -> Vec<Box<[u8]>> {
        let rows = self.rows.range::<[u8], _>((from, Bound::Excluded(to)));
        rows.take(limit).map(|(key, _)| key.clone()).collect()
    }

    /// The oldest frames, until they have `bytes` together.
    pub(crate) fn oldest(&self, bytes: usize) -> Vec<Arc<Frame>> {
        let mut sum = 0_usize;
        let enough = |frame: &&Arc<Frame>| {
            let wanted = sum < bytes;
            sum = sum.saturating_add(frame.bytes.len());
            wanted
        };
        self.frames.iter().take_while(enough).cloned().collect()
    }

    /// Drops the rows that the index has applied: everything up to `applied`.
    pub(crate) fn remove_applied(&mut self, applied: Sequence) {
        self.removals = self.removals.wrapping_add(1);
        while let Some(frame) = self.frames.front().filter(|frame| frame.header.last() <= applied) {
            self.bytes = self.bytes.saturating_sub(frame.bytes.len());
            for row in frame.rows().flatten() {
                if self.rows.get(row.key).is_some_and(|slot| slot.sequence <= applied) {
                    self.rows.remove(row.key);
                }
            }
            self.frames.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::embedded::journal::frame::Builder;

    fn publish(memtable: &mut Memtable, key: &[u8]) {
        let mut builder = Builder::new(Sequence(memtable.last().0 + 1));
        builder.begin();
        let put = |out: &mut Vec<u8>| -> Result<(), std::convert::Infallible> {
            out.push(1);
            Ok(())
        };
        let place = builder.put(key, put).unwrap();
        builder.end_commit();
        let sequence = Sequence(memtable.last().0 + 1);
        memtable.publish(builder.finish().0, Changed::from([(key.into(), (sequence, place))]));
    }

    #[test]
    fn lookups_of_a_missing_key_are_cached_until_it_may_have_been_written() {
        let mut memtable = Memtable::default();
        memtable.cache_absent(b"key", memtable.removals());
        assert!(memtable.is_absent(b"key") && !memtable.is_absent(b"other"));
        publish(&mut memtable, b"key");
        assert!(!memtable.is_absent(b"key"), "it exists now");
        memtable.cache_absent(b"key", memtable.removals());
        assert!(!memtable.is_absent(b"key"), "it was added before the absence was recorded");

        let asked = memtable.removals();
        memtable.remove_applied(memtable.last());
        memtable.cache_absent(b"key", asked);
        assert!(
            !memtable.is_absent(b"key"),
            "it was added and moved to the index before the absence was recorded"
        );
    }
}
