//! How many requests each caller may send: a bucket of tokens for each, kept as the one moment at which it is full again.
//!
//! Invariant: what is kept in memory is bounded, however many callers there are. A bucket that is full is as good as none, and
//! is forgotten when there is no room; where none is, all further callers share one.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};
use store::Timestamp;

/// The most callers that are kept apart.
const MOST: usize = 16_384;
/// How often it is looked whose bucket is full, where there is no room, in microseconds.
const SECOND: u64 = 1_000_000;

/// Whose request it is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RateLimitKey {
    /// A user, with whichever token.
    User(String),
    /// A cluster, with its key.
    Cluster(String),
    /// The agent of a node, by cluster and node: those of a cluster share a key.
    Agent(String),
    /// An address of whoever has proved nothing; of IPv6 the network.
    Address(Option<IpAddr>),
}

impl RateLimitKey {
    /// Every kind there is.
    pub(crate) const KINDS: [&str; 4] = ["user", "cluster", "agent", "address"];

    pub(crate) fn kind(&self) -> &'static str {
        let [user, cluster, agent, address] = Self::KINDS;
        match self {
            Self::User(_) => user,
            Self::Cluster(_) => cluster,
            Self::Agent(_) => agent,
            Self::Address(_) => address,
        }
    }
}

/// How fast a bucket fills, and how much it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// Between two requests that are sent on and on, in microseconds.
    each: u64,
    burst: u64,
}

impl RateLimit {
    /// So many in a second, so many at once; none if there is no bound.
    pub(crate) fn of(rate: u32, burst: u32) -> Option<Self> {
        let each = 1_000_000_u64.checked_div(rate.into())?;
        Some(Self { each: each.max(1), burst: u64::from(burst).max(1) })
    }

    fn full(self) -> u64 {
        self.each.saturating_mul(self.burst)
    }
}

/// What is left to a caller, told with every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimitStatus {
    /// So many may be sent within the window.
    pub(crate) most: u64,
    /// In which an empty bucket becomes full, in seconds.
    pub(crate) window: u64,
    /// So many may be sent at once now.
    pub(crate) left: u64,
    /// The bucket is full again after so many seconds.
    pub(crate) full_in: u64,
    /// Why this one may not: it is too soon by so much.
    pub(crate) refused: Option<Duration>,
}

/// The buckets, each by the moment at which it is full again, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    by: BTreeMap<Option<RateLimitKey>, u64>,
    looked: u64,
}

impl RateLimiter {
    /// Takes one request of `who` from their bucket.
    pub(crate) fn take(&mut self, who: RateLimitKey, pace: RateLimit, now: Timestamp) -> RateLimitStatus {
        let (now, full) = (now.0.saturating_mul(1_000), pace.full());
        let who = self.room(who, now);
        let full_at = self.by.entry(who).or_insert(now);
        // Clocks are set back now and then: nobody waits for longer than an empty bucket takes.
        let before = (*full_at).clamp(now, now.saturating_add(full));
        let after = before.saturating_add(pace.each);
        let missing = after.saturating_sub(now);
        let refused = missing.checked_sub(full).filter(|early| *early > 0).map(Duration::from_micros);
        let missing = if refused.is_some() { before.saturating_sub(now) } else { missing };
        *full_at = now.saturating_add(missing);
        RateLimitStatus {
            most: pace.burst,
            window: full.div_ceil(SECOND),
            left: full.saturating_sub(missing).checked_div(pace.each).unwrap_or(0),
            full_in: missing.div_ceil(SECOND),
            refused,
        }
    }

    /// The place of `who`: their own, unless there is none left.
    fn room(&mut self, who: RateLimitKey, now: u64) -> Option<RateLimitKey> {
        let who = Some(who);
        if self.by.len() < MOST || self.by.contains_key(&who) {
            return who;
        }
        if now.abs_diff(self.looked) >= SECOND {
            self.looked = now;
            self.by.retain(|_, full_at| *full_at > now);
        }
        if self.by.len() < MOST { who } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn ada() -> RateLimitKey {
        RateLimitKey::User("ada".into())
    }

    fn address(n: u32) -> RateLimitKey {
        RateLimitKey::Address(Some(IpAddr::V4(Ipv4Addr::from_bits(n))))
    }

    #[test]
    fn a_burst_passes_and_then_one_at_a_time_and_others_do_not_wait_for_it() {
        let (mut rates, pace) = (RateLimiter::default(), RateLimit::of(10, 5).unwrap());
        let now = Timestamp(1_000_000);
        for left in (0..5).rev() {
            let share = rates.take(ada(), pace, now);
            assert_eq!((share.left, share.refused), (left, None));
        }
        let sixth = rates.take(ada(), pace, now);
        assert_eq!((sixth.left, sixth.refused), (0, Some(Duration::from_millis(100))));
        assert_eq!((sixth.most, sixth.window, sixth.full_in), (5, 1, 1));
        assert_eq!(rates.take(RateLimitKey::User("bob".into()), pace, now).refused, None);
        assert_eq!(rates.take(ada(), pace, Timestamp(now.0 + 100)).refused, None, "one more came");
        assert!(rates.take(ada(), pace, Timestamp(now.0 + 100)).refused.is_some(), "and only one");
        let later = rates.take(ada(), pace, Timestamp(now.0 + 60_000));
        assert_eq!(later.left, 4, "a bucket holds no more than a burst");
    }

    #[test]
    fn a_clock_that_is_set_back_keeps_nobody_waiting_for_longer_than_an_empty_bucket() {
        let (mut rates, pace) = (RateLimiter::default(), RateLimit::of(10, 5).unwrap());
        for _ in 0..9 {
            rates.take(ada(), pace, Timestamp(10_000_000));
        }
        let back = rates.take(ada(), pace, Timestamp(1_000));
        assert_eq!(back.refused, Some(Duration::from_millis(100)));
        assert_eq!(rates.take(ada(), pace, Timestamp(1_100)).refused, None);
    }

    #[test]
    fn more_callers_than_are_kept_apart_share_one_bucket_and_idle_ones_make_room() {
        let (mut rates, pace) = (RateLimiter::default(), RateLimit::of(1, 5).unwrap());
        let refused = (0..50_000).filter(|n| rates.take(address(*n), pace, Timestamp(5)).refused.is_some());
        assert!(refused.count() > 30_000);
        assert!(rates.by.len() <= MOST + 1, "{}", rates.by.len());
        assert_eq!(rates.take(address(50_001), pace, Timestamp(60_000)).left, 4);
        assert!(rates.by.len() < 9, "whoever is idle was forgotten");
    }

    #[test]
    fn a_rate_of_none_is_no_bound() {
        assert_eq!(RateLimit::of(0, 400), None);
    }
}
