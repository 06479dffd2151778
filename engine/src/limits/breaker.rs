//! A circuit breaker: pauses attempts of a key after repeated failures, then allows one trial attempt. Pure.

use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{TaskId, Timestamp};

/// When a breaker trips, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BreakerRule {
    /// The number of consecutive transient or unknown failures that trips it; 0 disables it. Default 10: more than a
    /// step's default of 6 attempts, so that one failing execution does not block the others.
    pub after: u32,
    /// The pause after the first trip. It doubles with each further trip. Default 5 s.
    pub span: Duration,
    /// The longest pause. Default 30 s, the longest default wait between two attempts of a step.
    pub cap: Duration,
}

impl Default for BreakerRule {
    fn default() -> Self {
        Self { after: 10, span: Duration::from_secs(5), cap: Duration::from_secs(30) }
    }
}

/// The state of a breaker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Breaker {
    /// Failures since the last success.
    #[serde(default)]
    pub failures: u32,
    /// Trips since the last success.
    #[serde(default)]
    pub trips: u32,
    /// Which attempts it allows.
    #[serde(default)]
    pub state: BreakerState,
}

/// Which attempts a breaker allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BreakerState {
    /// All.
    #[default]
    Sound,
    /// None until this moment, then one trial.
    Tripped {
        /// The moment.
        until: Timestamp,
    },
    /// Only the trial attempt.
    Trying {
        /// The trial attempt.
        task: TaskId,
        /// When the trial counts as lost and another may start.
        until: Timestamp,
    },
}

impl Breaker {
    /// Returns an error with the time of the next check if `task` may not be attempted at `now`.
    pub(crate) fn admits(&self, task: TaskId, now: Timestamp) -> Result<(), Timestamp> {
        match self.state {
            BreakerState::Sound => Ok(()),
            BreakerState::Tripped { until } if until > now => Err(until),
            BreakerState::Trying { task: trial, until } if trial != task && until > now => Err(until),
            BreakerState::Tripped { .. } | BreakerState::Trying { .. } => Ok(()),
        }
    }

    /// Begins an attempt. It becomes the trial if the breaker has tripped.
    pub(crate) fn begin(&mut self, task: TaskId, until: Timestamp) {
        if self.state != BreakerState::Sound {
            self.state = BreakerState::Trying { task, until };
        }
    }

    /// The target answered. An attempt that began before the trip does not count.
    pub(crate) fn answered(&mut self, task: TaskId) {
        match self.state {
            BreakerState::Sound => self.failures = 0,
            BreakerState::Trying { task: trial, .. } if trial == task => *self = Self::default(),
            BreakerState::Trying { .. } | BreakerState::Tripped { .. } => {}
        }
    }

    /// The attempt failed in a way that may be the key's fault. Returns true if the breaker tripped.
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

    /// The attempt ended without a verdict. If it was the trial, the next attempt is.
    pub(crate) fn given_up(&mut self, task: TaskId, now: Timestamp) {
        if self.is_tried_by(task) {
            self.state = BreakerState::Tripped { until: now };
        }
    }

    /// Extends the trial attempt.
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
