//! The acknowledged rows that the index has not taken over yet.
//!
//! A read looks here first and then in the index, in that order: rows leave the overlay only after the index has
//! them, so whatever was acknowledged before the read began is found in one of the two.

use super::frame::{Frame, Place};
use crate::Sequence;
use std::{
    collections::{BTreeMap, VecDeque},
    ops::Bound,
    sync::Arc,
};

/// The bytes of a stored value, wherever they are.
#[derive(Clone, Debug)]
pub(crate) enum Value {
    Journalled(Arc<Frame>, std::ops::Range<usize>),
    Indexed(sled::IVec),
    Joined(Vec<u8>),
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Journalled(frame, place) => frame.bytes.get(place.clone()).unwrap_or_default(),
            Self::Indexed(value) => value,
            Self::Joined(value) => value,
        }
    }
}

/// A key and where its value lies in the frame at hand.
pub(crate) type Changed = BTreeMap<Box<[u8]>, (Sequence, Place)>;

struct Slot {
    sequence: Sequence,
    value: Option<Value>,
}

/// Rows by key, and the frames they are from in the order of commits.
#[derive(Default)]
pub(crate) struct Overlay {
    rows: BTreeMap<Box<[u8]>, Slot>,
    frames: VecDeque<Arc<Frame>>,
    bytes: usize,
    last: Sequence,
}

impl Overlay {
    /// An overlay over an index that holds everything up to `last`.
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
            let value = place.map(|place| Value::Journalled(frame.clone(), place));
            self.rows.insert(key, Slot { sequence, value });
        }
        self.frames.push_back(frame);
    }

    /// `None` if the overlay has nothing to say about `key`, `Some(None)` if it was deleted.
    #[allow(clippy::option_option, reason = "the two levels mean what the sentence above says")]
    pub(crate) fn get(&self, key: &[u8]) -> Option<Option<Value>> {
        self.rows.get(key).map(|slot| slot.value.clone())
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

    /// Drops what the index has taken over: everything up to `applied`.
    pub(crate) fn retire(&mut self, applied: Sequence) {
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
