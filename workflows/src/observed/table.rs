//! The objects of one kind by UID, kept up to date by watch events.
//!
//! Invariant: after each `InitDone` the table has exactly the objects of that list, and between `Init` and `InitDone` it does not change. So a list that fails
//! changes nothing.

use super::{Batch, Mark, Refusal, Uid, WatchEvent, mark::Turn};
use std::collections::{BTreeMap, HashSet};
use store::Timestamp;

/// An object that a table has.
pub trait Tracked: Clone + PartialEq {
    /// Returns its UID.
    fn uid(&self) -> Uid;

    /// Returns its resource version as a number, or 0 if it has none. Compared only with other versions of the same object.
    fn version(&self) -> u64;
}

/// How an object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its deletion was observed.
    Deleted,
    /// A later list lacks it. It was deleted between these times.
    Vanished {
        /// The last time at which the table was complete with it.
        after: Timestamp,
        /// The time of the list.
        before: Timestamp,
    },
}

/// A change of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delta<T> {
    /// An object is new.
    Appeared(Uid),
    /// An object has changed.
    Changed {
        /// Its UID.
        uid: Uid,
        /// The object before the change.
        before: T,
    },
    /// An object does not exist any more.
    Ended {
        /// The object, as it was last seen.
        last: T,
        /// How it ended.
        how: Ending,
    },
}

impl<T> Delta<T> {
    /// Returns true if an object vanished: its deletion was not observed.
    #[must_use]
    pub fn is_vanished(&self) -> bool {
        match self {
            Self::Ended { how: Ending::Vanished { .. }, .. } => true,
            Self::Ended { how: Ending::Deleted, .. } | Self::Appeared(_) | Self::Changed { .. } => false,
        }
    }
}

/// What happened to a table since it was created, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Complete lists.
    pub lists: u64,
    /// Lists that another one replaced before they were complete.
    pub failed_lists: u64,
    /// Objects that a list lacked.
    pub vanished: u64,
    /// Objects of an older version than the known one.
    pub outdated: u64,
    /// Batches that were already applied.
    pub repeated: u64,
    /// Batches that were refused.
    pub refused: u64,
}

/// An incomplete list.
#[derive(Clone, Debug)]
struct Listing<T> {
    seen: HashSet<Uid>,
    /// Objects that differ from the table.
    changed: BTreeMap<Uid, T>,
    /// The last time at which the table was known to be complete.
    complete_at: Timestamp,
}

/// The objects of one kind.
#[derive(Clone, Debug)]
pub struct Table<T> {
    objects: BTreeMap<Uid, T>,
    last: Option<Mark>,
    listing: Option<Listing<T>>,
    complete_at: Option<Timestamp>,
    counts: Counts,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let (objects, counts) = (BTreeMap::new(), Counts::default());
        Self { objects, last: None, listing: None, complete_at: None, counts }
    }
}

impl<T: Tracked> Table<T> {
    /// Returns an object.
    #[must_use]
    pub fn get(&self, uid: Uid) -> Option<&T> {
        self.objects.get(&uid)
    }

    /// Returns all objects in the order of their UIDs.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.objects.values()
    }

    /// Returns the number of objects.
    #[must_use]
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns true if it has no objects.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns true if a list was complete, so that a missing object means that it did not exist then.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.complete_at.is_some()
    }

    /// Returns true if a list has begun and is not complete.
    #[must_use]
    pub fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// Returns the last time at which the table was complete.
    #[must_use]
    pub fn complete_at(&self) -> Option<Timestamp> {
        self.complete_at
    }

    /// Returns the mark of the last batch.
    #[must_use]
    pub fn last_mark(&self) -> Option<Mark> {
        self.last
    }

    /// Returns the counts for metrics.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Applies a batch and returns the changes. A repeated batch has none.
    ///
    /// # Errors
    /// The batch is refused and nothing changes.
    pub fn apply(&mut self, batch: Batch<T>) -> Result<Vec<Delta<T>>, Refusal> {
        match self.turn(&batch) {
            Ok(Turn::Next) => {}
            Ok(Turn::Repeated) => {
                self.counts.repeated = self.counts.repeated.saturating_add(1);
                return Ok(Vec::new());
            }
            Err(refusal) => {
                self.counts.refused = self.counts.refused.saturating_add(1);
                return Err(refusal);
            }
        }
        self.last = Some(batch.mark);
        let mut deltas = Vec::new();
        for event in batch.events {
            match event {
                WatchEvent::Init => self.begin(batch.at),
                WatchEvent::InitApply(object) => self.collect(object),
                WatchEvent::InitDone => self.complete(batch.at, &mut deltas),
                WatchEvent::Apply(object) => self.put(object, &mut deltas),
                WatchEvent::Delete(uid) => {
                    let ended = self.objects.remove(&uid);
                    deltas.extend(ended.map(|last| Delta::Ended { last, how: Ending::Deleted }));
                }
            }
        }
        if self.listing.is_none() {
            self.complete_at = Some(batch.at);
        }
        Ok(deltas)
    }

    fn turn(&self, batch: &Batch<T>) -> Result<Turn, Refusal> {
        let turn = batch.mark.turn(self.last, batch.lists())?;
        if turn == Turn::Next {
            batch.check(self.listing.is_some() && !batch.lists())?;
        }
        Ok(turn)
    }

    fn begin(&mut self, at: Timestamp) {
        let complete_at = match self.listing.take() {
            Some(failed) => {
                self.counts.failed_lists = self.counts.failed_lists.saturating_add(1);
                failed.complete_at
            }
            None => self.complete_at.unwrap_or(at),
        };
        self.listing = Some(Listing { seen: HashSet::new(), changed: BTreeMap::new(), complete_at });
    }

    fn collect(&mut self, object: T) {
        let Some(listing) = &mut self.listing else { return };
        let uid = object.uid();
        listing.seen.insert(uid);
        if self.objects.get(&uid) == Some(&object) {
            listing.changed.remove(&uid);
        } else {
            listing.changed.insert(uid, object);
        }
    }

    fn complete(&mut self, at: Timestamp, deltas: &mut Vec<Delta<T>>) {
        let Some(Listing { seen, changed, complete_at }) = self.listing.take() else { return };
        let missing = self.objects.keys().filter(|uid| !seen.contains(uid));
        let missing: Vec<Uid> = missing.copied().collect();
        for uid in missing {
            if let Some(last) = self.objects.remove(&uid) {
                self.counts.vanished = self.counts.vanished.saturating_add(1);
                let how = Ending::Vanished { after: complete_at, before: at };
                deltas.push(Delta::Ended { last, how });
            }
        }
        for object in changed.into_values() {
            self.put(object, deltas);
        }
        self.counts.lists = self.counts.lists.saturating_add(1);
    }

    fn put(&mut self, object: T, deltas: &mut Vec<Delta<T>>) {
        let uid = object.uid();
        match self.objects.get_mut(&uid) {
            Some(known) if is_older(&object, known) => {
                self.counts.outdated = self.counts.outdated.saturating_add(1);
            }
            Some(known) if *known == object => {}
            Some(known) => {
                let before = std::mem::replace(known, object);
                deltas.push(Delta::Changed { uid, before });
            }
            None => {
                self.objects.insert(uid, object);
                deltas.push(Delta::Appeared(uid));
            }
        }
    }
}

/// Returns true if the object has a lower version than the known one.
fn is_older<T: Tracked>(object: &T, known: &T) -> bool {
    object.version() != 0 && object.version() < known.version()
}
