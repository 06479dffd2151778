//! Retry policies as data. Every engine computes the same delays, also after a restart.

use crate::{DAY, MINUTE, SECOND};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often and how far apart a failing attempt is repeated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Wait before the second attempt. Default 1 s.
    pub first: Duration,
    /// Each wait is this many times the one before. Default 2.
    pub factor: u32,
    /// The longest wait. Default 30 s.
    pub cap: Duration,
    /// The number of attempts, the first included. Default 6.
    pub attempts: u32,
    /// The longest time from the first attempt to the start of the last; also bounds polling. Default 1 day.
    pub budget: Duration,
    /// Error codes that are never retried, whatever their class.
    pub never: Vec<String>,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self { first: SECOND, factor: 2, cap: 30 * SECOND, attempts: 6, budget: DAY, never: Vec::new() }
    }
}

impl RetryPolicy {
    /// The policy of compensations: more attempts, because giving up leaves effects behind.
    #[must_use]
    pub fn patient() -> Self {
        Self { cap: 5 * MINUTE, attempts: 20, ..Self::default() }
    }

    /// Returns the wait after `failed` attempts (at least one), or `None` after the last. `seed` spreads simultaneous
    /// failures over the second half of the wait. The caller checks the budget.
    #[must_use]
    pub fn delay(&self, failed: u32, seed: u64) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let factor = self.factor.max(1).saturating_pow(failed.saturating_sub(1));
        let full = self.first.saturating_mul(factor).min(self.cap);
        Some(full / 2 + spread(full / 2, seed))
    }
}

/// Returns a fraction of `span` that depends on `seed`.
fn spread(span: Duration, seed: u64) -> Duration {
    let millis = u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    // Multiplication by a large odd constant (Knuth, TAOCP 6.4) scatters neighbouring seeds.
    let scattered = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    Duration::from_millis(scattered.checked_rem(millis + 1).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_attempt_is_not_followed_by_a_wait() {
        let policy = RetryPolicy { attempts: 3, ..RetryPolicy::default() };
        assert!(policy.delay(2, 1).is_some());
        assert_eq!(policy.delay(3, 1), None);
    }

    #[test]
    fn a_wait_is_between_half_and_all_of_its_step() {
        let policy = RetryPolicy::default();
        for seed in 0..1_000 {
            let wait = policy.delay(3, seed).unwrap();
            assert!((2 * SECOND..=4 * SECOND).contains(&wait), "{wait:?}");
        }
    }
}
