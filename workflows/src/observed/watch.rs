//! Watch events, as kube's `watcher` orders them.

use super::{Mark, Refusal, Uid};
use store::Timestamp;

/// An event of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WatchEvent<T> {
    /// A list begins.
    Init,
    /// The list has this object.
    InitApply(T),
    /// The list is complete. An object that it did not have does not exist.
    InitDone,
    /// An object was created or changed.
    Apply(T),
    /// An object was deleted.
    Delete(Uid),
}

/// Events of one source in their order. A batch is applied whole or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch<T> {
    /// Its position.
    pub mark: Mark,
    /// The time of receipt, by the store's clock.
    pub at: Timestamp,
    /// The events.
    pub events: Vec<WatchEvent<T>>,
}

impl<T> Batch<T> {
    /// Returns true if it begins with `Init`.
    pub(super) fn lists(&self) -> bool {
        matches!(self.events.first(), Some(WatchEvent::Init))
    }

    /// Checks that the order of the events is possible. `listing` is true if a list is incomplete before the batch.
    pub(super) fn check(&self, mut listing: bool) -> Result<(), Refusal> {
        for (number, event) in self.events.iter().enumerate() {
            let (possible, next) = match event {
                WatchEvent::Init => (number == 0 && self.mark.seq == 0, true),
                WatchEvent::InitApply(_) => (listing, true),
                WatchEvent::InitDone => (listing, false),
                WatchEvent::Apply(_) | WatchEvent::Delete(_) => (!listing, false),
            };
            if !possible {
                return Err(Refusal::Malformed);
            }
            listing = next;
        }
        Ok(())
    }
}
