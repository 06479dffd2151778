//! How long observations of a source may be used.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// The freshness of a source, as a lease: a time until which its last observation may be used.
///
/// It is written again only when half of its life is over. Decisions that read it are not repeated for each batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Freshness {
    /// The end of the lease, by the store's clock.
    pub fresh_until: Timestamp,
}

impl Freshness {
    /// Returns the freshness of an observation that was just made.
    #[must_use]
    pub fn new(now: Timestamp, life: Duration) -> Self {
        Self { fresh_until: now.after(life) }
    }

    /// Returns true if observations of the source may be used.
    #[must_use]
    pub fn is_fresh(self, now: Timestamp) -> bool {
        now < self.fresh_until
    }

    /// Returns the freshness to write after another observation, or `None` while less than half of the life is over.
    ///
    /// A lease that is further in the future than one life was written by a clock that was set back; it is replaced.
    #[must_use]
    pub fn renewed(self, now: Timestamp, life: Duration) -> Option<Self> {
        let left = self.fresh_until.since(now);
        (left <= life / 2 || left > life).then(|| Self::new(now, life))
    }

    /// Returns how long the source has been silent beyond its lease.
    #[must_use]
    pub fn overdue(self, now: Timestamp) -> Option<Duration> {
        (!self.is_fresh(now)).then(|| now.since(self.fresh_until))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIFE: Duration = Duration::from_secs(60);

    #[test]
    fn freshness_is_written_once_in_half_its_life_and_ends_if_the_source_is_silent() {
        let mut now = Timestamp(1_000_000);
        let (mut lease, mut writes) = (Freshness::new(now, LIFE), 0);
        for _ in 0..120 {
            now = now.after(Duration::from_secs(1));
            assert!(lease.is_fresh(now));
            if let Some(renewed) = lease.renewed(now, LIFE) {
                (lease, writes) = (renewed, writes + 1);
            }
        }
        assert_eq!(writes, 4, "once in 30 s, with an observation each second");

        let silent = now.after(LIFE);
        assert!(!lease.is_fresh(silent));
        assert_eq!(lease.overdue(silent), Some(Duration::ZERO));
        assert_eq!(lease.overdue(silent.after(LIFE)), Some(LIFE));
    }

    #[test]
    fn a_lease_from_a_clock_that_was_set_back_is_replaced() {
        let lease = Freshness { fresh_until: Timestamp(9_000_000) };
        let now = Timestamp(1_000_000);
        assert_eq!(lease.renewed(now, LIFE), Some(Freshness::new(now, LIFE)));
    }
}
