//! A circuit breaker: a key whose attempts fail one after the other is left alone for a while, then tried once. Pure.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{TaskId, Timestamp};

/// When a breaker trips, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerRule {
    /// It trips after so many transient or unknown failures in a row; 0 turns it off. Default 10: more than a step's default
    /// of 6 attempts, so that one execution that fails does not bar the others.
    pub after: u32,
    /// How long nothing is tried after the first trip; twice as long after each further one. Default 5 s.
    pub span: Duration,
    /// No span is longer. Default 30 s, as long as the longest usual wait between two attempts of a step.
    pub cap: Duration,
}

impl Default for BreakerRule {
    fn default() -> Self {
        Self { after: 10, span: Duration::from_secs(5), cap: Duration::from_secs(30) }
    }
}

/// How a breaker stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breaker {
    /// Failures since the last success.
    #[serde(default)]
    pub failures: u32,
    /// Times it has tripped since the last success.
    #[serde(default)]
    pub trips: u32,
    /// What it lets through.
    #[serde(default)]
    pub state: BreakerState,
}

/// What a breaker lets through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// Everything.
    #[default]
    Sound,
    /// Nothing before this moment, then one attempt.
    Tripped {
        /// The moment.
        until: Timestamp,
    },
    /// Nothing beside one attempt, which decides.
    Trying {
        /// The attempt.
        task: TaskId,
        /// When it counts as lost, and another may try.
        until: Timestamp,
    },
}

impl Breaker {
    /// Whether `task` may be attempted at `now`; if not, when to look again.
    pub(crate) fn admits(&self, task: TaskId, now: Timestamp) -> Result<(), Timestamp> {
        match self.state {
            BreakerState::Sound => Ok(()),
            BreakerState::Tripped { until } if until > now => Err(until),
            BreakerState::Trying { task: trial, until } if trial != task && until > now => Err(until),
            BreakerState::Tripped { .. } | BreakerState::Trying { .. } => Ok(()),
        }
    }

    /// Begins an attempt that was admitted: the one that decides, unless the breaker is sound.
    pub(crate) fn begin(&mut self, task: TaskId, until: Timestamp) {
        if self.state != BreakerState::Sound {
            self.state = BreakerState::Trying { task, until };
        }
    }

    /// The attempt was answered by what it was addressed to. One that began before the trip says nothing about after it.
    pub(crate) fn answered(&mut self, task: TaskId) {
        match self.state {
            BreakerState::Sound => self.failures = 0,
            BreakerState::Trying { task: trial, .. } if trial == task => *self = Self::default(),
            BreakerState::Trying { .. } | BreakerState::Tripped { .. } => {}
        }
    }

    /// The attempt failed in a way that may be the key's. Says whether the breaker tripped.
    pub(crate) fn failed(&mut self, task: TaskId, now: Timestamp, rule: &BreakerRule) -> bool {
        let trips = match self.state {
            BreakerState::Sound => {
                self.failures = self.failures.saturating_add(1);
                rule.after > 0 && self.failures >= rule.after
            }
            BreakerState::Trying { task: trial, .. } => trial == task,
            BreakerState::Tripped { .. } => false,
        };
        if trips {
            self.trips = self.trips.saturating_add(1);
            let factor = 2_u32.saturating_pow(self.trips.saturating_sub(1));
            let span = rule.span.saturating_mul(factor).min(rule.cap);
            self.state = BreakerState::Tripped { until: now.after(span) };
        }
        trips
    }

    /// The attempt ended without a verdict; if it was the one to decide, the next one is.
    pub(crate) fn given_up(&mut self, task: TaskId, now: Timestamp) {
        if self.is_tried_by(task) {
            self.state = BreakerState::Tripped { until: now };
        }
    }

    /// The attempt that decides is still at work.
    pub(crate) fn renew(&mut self, task: TaskId, until: Timestamp) {
        if self.is_tried_by(task) {
            self.state = BreakerState::Trying { task, until };
        }
    }

    fn is_tried_by(&self, task: TaskId) -> bool {
        matches!(self.state, BreakerState::Trying { task: trial, .. } if trial == task)
    }

    pub(crate) fn is_untouched(&self) -> bool {
        *self == Self::default()
    }
}
