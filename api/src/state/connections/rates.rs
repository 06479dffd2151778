//! Rate limits of callers: a token bucket each, stored as the time at which it is full again.
//!
//! Invariant: memory is bounded, whatever the number of callers. A full bucket is removed when space is needed; without space, further callers share one
//! bucket.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};
use store::Timestamp;

/// The maximum number of separate callers.
const MOST: usize = 16_384;
/// The interval at which full buckets are searched when space is needed, in microseconds.
const SECOND: u64 = 1_000_000;

/// The caller of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RateLimitKey {
    /// A user, with any token.
    User(String),
    /// A cluster, by its key.
    Cluster(String),
    /// The agent of a node, by cluster and node, because the agents of a cluster share a key.
    Agent(String),
    /// The IP address of an unauthenticated caller; the network for IPv6.
    Address(Option<IpAddr>),
}

impl RateLimitKey {
    /// All types of callers.
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

/// The rate and the capacity of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimit {
    /// The interval between requests at the sustained rate, in microseconds.
    each: u64,
    burst: u64,
}

impl RateLimit {
    /// Creates a limit from requests per second and burst; `None` without a limit.
    pub(crate) fn of(rate: u32, burst: u32) -> Option<Self> {
        let each = 1_000_000_u64.checked_div(rate.into())?;
        Some(Self { each: each.max(1), burst: u64::from(burst).max(1) })
    }

    fn full(self) -> u64 {
        self.each.saturating_mul(self.burst)
    }
}

/// The state of a caller's limit, sent with every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateLimitStatus {
    /// The maximum number of requests within the window.
    pub(crate) most: u64,
    /// The time in which an empty bucket becomes full, in seconds.
    pub(crate) window: u64,
    /// The number of requests allowed now.
    pub(crate) left: u64,
    /// The seconds until the bucket is full.
    pub(crate) full_in: u64,
    /// If the request is rejected: the time until it would be allowed.
    pub(crate) refused: Option<Duration>,
}

/// The buckets, each as the time at which it is full again, in microseconds.
#[derive(Debug, Default)]
pub(crate) struct RateLimiter {
    by: BTreeMap<Option<RateLimitKey>, u64>,
    looked: u64,
}

impl RateLimiter {
    /// Takes one request from the bucket of `who`.
    pub(crate) fn take(&mut self, who: RateLimitKey, pace: RateLimit, now: Timestamp) -> RateLimitStatus {
        let (now, full) = (now.0.saturating_mul(1_000), pace.full());
        let who = self.room(who, now);
        let full_at = self.by.entry(who).or_insert(now);
        // After the clock was set back, the wait is at most that of an empty bucket.
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

    /// Returns the bucket of `who`: its own, unless there is no space.
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
    fn after_a_burst_requests_pass_at_the_sustained_rate_and_other_callers_are_not_affected() {
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
        assert_eq!(rates.take(ada(), pace, Timestamp(now.0 + 100)).refused, None, "one more request came");
        assert!(rates.take(ada(), pace, Timestamp(now.0 + 100)).refused.is_some(), "and only one");
        let later = rates.take(ada(), pace, Timestamp(now.0 + 60_000));
        assert_eq!(later.left, 4, "a bucket has at most the burst");
    }

    #[test]
    fn after_the_clock_was_set_back_a_caller_waits_at_most_as_for_an_empty_bucket() {
        let (mut rates, pace) = (RateLimiter::default(), RateLimit::of(10, 5).unwrap());
        for _ in 0..9 {
            rates.take(ada(), pace, Timestamp(10_000_000));
        }
        let back = rates.take(ada(), pace, Timestamp(1_000));
        assert_eq!(back.refused, Some(Duration::from_millis(100)));
        assert_eq!(rates.take(ada(), pace, Timestamp(1_100)).refused, None);
    }

    #[test]
    fn too_many_callers_share_one_bucket_and_idle_callers_are_removed() {
        let (mut rates, pace) = (RateLimiter::default(), RateLimit::of(1, 5).unwrap());
        let refused = (0..50_000).filter(|n| rates.take(address(*n), pace, Timestamp(5)).refused.is_some());
        assert!(refused.count() > 30_000);
        assert!(rates.by.len() <= MOST + 1, "{}", rates.by.len());
        assert_eq!(rates.take(address(50_001), pace, Timestamp(60_000)).left, 4);
        assert!(rates.by.len() < 9, "idle callers were removed");
    }

    #[test]
    fn a_rate_of_zero_is_no_limit() {
        assert_eq!(RateLimit::of(0, 400), None);
    }
}
