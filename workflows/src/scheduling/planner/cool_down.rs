//! Prevents reclaims in circles: victims cool down, and a pair with many reclaims gets a lower borrowing limit for a while.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Durations in ms, and counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoolDownRules {
    /// The time for which a victim is not admitted as a borrower. Default 15 min.
    pub cooldown: i64,
    /// The window in which the reclaims of a pair are counted. Default 1 h.
    pub window: i64,
    /// The number of reclaims that halves the limit. Default 3.
    pub most: usize,
    /// The duration of the halved limit. Default 1 h.
    pub halved_for: i64,
}

impl Default for CoolDownRules {
    fn default() -> Self {
        const MINUTE: i64 = 60_000;
        Self { cooldown: 15 * MINUTE, window: 60 * MINUTE, most: 3, halved_for: 60 * MINUTE }
    }
}

/// Recent reclaims and their effect on limits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecentReclaims {
    victims: BTreeMap<String, i64>,
    /// Times of reclaims by borrower and lender, oldest first.
    pairs: BTreeMap<String, BTreeMap<String, Vec<i64>>>,
    halved_until: BTreeMap<String, i64>,
}

impl RecentReclaims {
    /// Records that a workload was evicted as a victim. Called once for each victim.
    pub fn record_victim(&mut self, workload: &str, now: i64) {
        self.victims.insert(workload.to_owned(), now);
    }

    /// Records one reclaim by a lender from a borrower, with any number of victims.
    pub fn record_pair(&mut self, borrower: &str, lender: &str, now: i64, calm: &CoolDownRules) {
        let times = self.pairs.entry(borrower.to_owned()).or_default().entry(lender.to_owned()).or_default();
        times.retain(|at| now.saturating_sub(*at) < calm.window);
        times.push(now);
        if times.len() >= calm.most {
            self.halved_until.insert(borrower.to_owned(), now.saturating_add(calm.halved_for));
        }
    }

    /// Returns the end of a workload's cool-down, if it cools down.
    #[must_use]
    pub fn cooling_until(&self, workload: &str, now: i64, calm: &CoolDownRules) -> Option<i64> {
        let until = self.victims.get(workload)?.saturating_add(calm.cooldown);
        (until > now).then_some(until)
    }

    /// Returns the borrowing limit in force now, given the configured limit.
    #[must_use]
    pub fn borrowing_limit(&self, borrower: &str, limit: u64, now: i64) -> u64 {
        if self.halved_until.get(borrower).is_some_and(|until| *until > now) { limit / 2 } else { limit }
    }

    /// Removes expired entries.
    pub fn prune(&mut self, now: i64, calm: &CoolDownRules) {
        self.victims.retain(|_, at| at.saturating_add(calm.cooldown) > now);
        self.halved_until.retain(|_, until| *until > now);
        for lenders in self.pairs.values_mut() {
            for times in lenders.values_mut() {
                times.retain(|at| now.saturating_sub(*at) < calm.window);
            }
            lenders.retain(|_, times| !times.is_empty());
        }
        self.pairs.retain(|_, lenders| !lenders.is_empty());
    }
}
