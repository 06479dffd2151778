//! Delays answers to callers who try several invalid credentials. Only refusals are delayed, never successful requests.

use std::{collections::BTreeMap, net::IpAddr, time::Duration};
use store::Timestamp;

/// The interval between answers after the undelayed ones, in milliseconds.
const TURN: u64 = 1_000;
/// The maximum delay, in milliseconds, because a waiting connection uses memory.
const LONGEST: u64 = 10_000;
/// How long guesses are remembered, in milliseconds.
const MINUTE: u64 = 60_000;
/// The maximum number of remembered addresses; others share one entry.
const MOST: usize = 4_096;

/// The addresses with guesses, and the time of the next answer.
#[derive(Debug, Default)]
pub(super) struct GuessDelays {
    by: BTreeMap<Option<IpAddr>, RecentGuesses>,
}

#[derive(Debug)]
struct RecentGuesses {
    since: Timestamp,
    guesses: u32,
    last: u64,
    free_at: Timestamp,
}

impl GuessDelays {
    /// Returns the delay of the answer to this invalid credential. A repetition of the last one is a misconfigured program, not a guess. Per minute, `free`
    /// guesses are not delayed.
    pub(super) fn wait(&mut self, from: IpAddr, guess: u64, free: u32, now: Timestamp) -> Duration {
        let fresh = |tries: &RecentGuesses| now.0.saturating_sub(tries.since.0.max(tries.free_at.0)) < MINUTE;
        let mut from = Some(network(from));
        if !self.by.contains_key(&from) && self.by.len() >= MOST {
            self.by.retain(|_, tries| fresh(tries));
            if self.by.len() >= MOST {
                from = None;
            }
        }
        let none = RecentGuesses { since: now, guesses: 0, last: guess.wrapping_add(1), free_at: now };
        let tries = self.by.entry(from).or_insert(none);
        if !fresh(tries) {
            *tries = RecentGuesses { since: now, guesses: 0, last: tries.last, free_at: now };
        }
        if tries.last == guess {
            return Duration::ZERO;
        }
        tries.last = guess;
        tries.guesses = tries.guesses.saturating_add(1);
        if tries.guesses <= free {
            return Duration::ZERO;
        }
        let due = tries.free_at.0.max(now.0).saturating_add(TURN).min(now.0.saturating_add(LONGEST));
        tries.free_at = Timestamp(due);
        Duration::from_millis(due.saturating_sub(now.0))
    }
}

/// Returns the owner of an address: the network for IPv6, because a host can use many addresses.
pub(crate) fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4(v4),
        IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & !u128::from(u64::MAX)).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FREE: u32 = 20;
    const HERE: &str = "10.0.0.7";

    fn from(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn further_guesses_are_delayed_and_other_callers_are_not() {
        let mut turns = GuessDelays::default();
        let now = Timestamp(1_000_000);
        let mut wait =
            |address: &str, guess: u64, now| turns.wait(from(address), guess, FREE, now).as_millis();
        for guess in 0..u64::from(FREE) {
            assert_eq!(wait(HERE, guess, now), 0);
        }
        assert_eq!((wait(HERE, 100, now), wait(HERE, 101, now)), (1_000, 2_000));
        for guess in 200..300 {
            assert!(wait(HERE, guess, now) <= 10_000, "never longer");
        }
        assert_eq!(wait("10.0.0.8", 1, now), 0);
        assert_eq!(
            wait(HERE, 500, Timestamp(now.0 + 80_000)),
            0,
            "after a minute without guesses all is forgotten"
        );
    }

    #[test]
    fn a_repeated_invalid_token_is_not_a_second_guess() {
        let mut turns = GuessDelays::default();
        for n in 0..1_000 {
            assert_eq!(turns.wait(from(HERE), 7, FREE, Timestamp(n)), Duration::ZERO);
        }
    }

    #[test]
    fn the_addresses_of_an_ipv6_network_count_as_one() {
        let mut turns = GuessDelays::default();
        let waits =
            (0..=FREE).map(|n| turns.wait(from(&format!("2001:db8::{n:x}")), n.into(), FREE, Timestamp(5)));
        assert_eq!(waits.last(), Some(Duration::from_secs(1)));
        let many =
            (0..10_000_u32).map(|n| turns.wait(IpAddr::V4((n << 8).into()), n.into(), FREE, Timestamp(5)));
        assert!(
            many.last().is_some_and(|wait| wait > Duration::ZERO),
            "also with more addresses than can be remembered"
        );
        assert!(turns.by.len() <= MOST + 1);
    }
}
