//! The limiter of one key: its permits, its rate, and its closure. Decisions are pure.

use crate::{Breaker, BreakerRule, BreakerState, Entity, Limit, Rate};
use serde::{Deserialize, Serialize};
use std::fmt;
use store::{TaskId, Timestamp};

/// The limiter of one key. Stored only while it has some state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limiter {
    /// The key.
    pub key: String,
    /// The permits in use, earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Permit>,
    /// The theoretical start of the next attempt at an even rate, in microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paced: Option<u64>,
    /// The closure of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<KeyClosure>,
    /// The state of its breaker.
    #[serde(default, skip_serializing_if = "Breaker::is_untouched")]
    pub breaker: Breaker,
}

/// The permit of one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    /// The task of the attempt.
    pub task: TaskId,
    /// When it was acquired.
    pub since: Timestamp,
    /// When it lapses unless renewed.
    pub until: Timestamp,
    /// True while its action is pending and no attempt runs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

/// The closure of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyClosure {
    /// The end; `None` if only a person can open it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The reason.
    pub why: String,
    /// The person who closed it, or the action whose target asked to wait.
    pub by: String,
}

/// Why an attempt is deferred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    /// All permits are used, or reserved for earlier attempts.
    Full {
        /// Permits in use.
        in_use: usize,
        /// The limit.
        of: u32,
        /// Attempts ahead.
        before: usize,
    },
    /// The rate would be exceeded.
    Paced {
        /// The allowed rate.
        rate: Rate,
        /// Attempts ahead.
        before: usize,
    },
    /// The key is closed.
    Closed(KeyClosure),
    /// The breaker has tripped.
    Tripped {
        /// The consecutive failures that tripped it.
        failures: u32,
    },
}

impl Deferral {
    /// Returns the stable code of the reason.
    #[must_use]
    pub fn code(&self) -> &'static str {
        match self {
            Self::Full { .. } => "limit.full",
            Self::Paced { .. } => "limit.paced",
            Self::Closed(_) => "limit.closed",
            Self::Tripped { .. } => "limit.tripped",
        }
    }
}

impl fmt::Display for Deferral {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full { in_use, of, before } => write!(f, "{in_use} of {of} in use, {before} before it"),
            Self::Paced { rate, before } => {
                write!(f, "{} in {:?} are allowed, {before} before it", rate.times, rate.per)
            }
            Self::Closed(closed) => write!(f, "closed by {}: {}", closed.by, closed.why),
            Self::Tripped { failures } => {
                write!(f, "paused by its circuit breaker after {failures} failures in a row")
            }
        }
    }
}

/// A refusal: its reason, and when to check again. `None` if only another event can change it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) why: Deferral,
    pub(crate) until: Option<Timestamp>,
}

/// The rules for an attempt at a key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyTerms<'a> {
    pub(crate) limit: Option<&'a Limit>,
    pub(crate) breaker: Option<BreakerRule>,
    /// Attempts ahead.
    pub(crate) ahead: usize,
}

/// The verdict of an attempt about its keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyVerdict {
    /// The target answered, with any answer.
    Answered,
    /// The attempt failed in a way that may be the key's fault.
    Failed,
    /// The attempt says nothing about the key.
    Unheard,
}

impl Entity for Limiter {
    const COLLECTION: &'static str = "gates";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.key.clone()
    }
}

impl Limiter {
    pub(crate) fn for_key(key: &str) -> Self {
        Self { key: key.into(), ..Self::default() }
    }

    /// Returns true if it has no state to store.
    pub(crate) fn is_plain(&self) -> bool {
        self.places.is_empty() && self.paced.is_none() && self.closed.is_none() && self.breaker.is_untouched()
    }

    /// Returns the permits in use at `now`, without that of `task`.
    pub(crate) fn permits_in_use(&self, now: Timestamp, task: Option<TaskId>) -> usize {
        self.places.iter().filter(|place| place.until > now && Some(place.task) != task).count()
    }

    /// Returns an error if `task` may not be attempted at `now`.
    pub(crate) fn admits(&self, task: TaskId, now: Timestamp, terms: KeyTerms<'_>) -> Result<(), Denied> {
        if let Some(closed) = self.closed.as_ref().filter(|closed| closed.until.is_none_or(|at| at > now)) {
            return Err(Denied { why: Deferral::Closed(closed.clone()), until: closed.until });
        }
        if terms.breaker.is_some() {
            let failures = self.breaker.failures;
            let hold = |until| Denied { why: Deferral::Tripped { failures }, until: Some(until) };
            self.breaker.admits(task, now).map_err(hold)?;
        }
        let Some(limit) = terms.limit else { return Ok(()) };
        // A task that already has a permit does not wait for another.
        let inside = self.places.iter().any(|place| place.task == task && place.until > now);
        if let Some(of) = limit.concurrency.filter(|_| !inside) {
            let in_use = self.permits_in_use(now, None);
            if in_use.saturating_add(terms.ahead) >= of as usize {
                let why = Deferral::Full { in_use, of, before: terms.ahead };
                return Err(Denied { why, until: None });
            }
        }
        if let Some(rate) = limit.rate {
            let from = self.paced_from(rate, terms.ahead);
            if from > micros(now) {
                let why = Deferral::Paced { rate, before: terms.ahead };
                return Err(Denied { why, until: Some(Timestamp(from.div_ceil(1_000))) });
            }
        }
        Ok(())
    }

    /// Returns when an attempt with `before` others ahead may begin, in microseconds since 1970.
    fn paced_from(&self, rate: Rate, before: usize) -> u64 {
        let interval = rate.interval();
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        let due = self.paced.unwrap_or(0).saturating_add(interval.saturating_mul(before));
        due.saturating_sub(interval.saturating_mul(u64::from(rate.burst.max(1)) - 1))
    }

    /// Gives `task` a permit until `until`, unless renewed.
    pub(crate) fn admit(&mut self, task: TaskId, now: Timestamp, until: Timestamp, terms: KeyTerms<'_>) {
        self.tidy(now);
        if terms.breaker.is_some() {
            self.breaker.begin(task, until);
        }
        let Some(limit) = terms.limit else { return };
        if limit.concurrency.is_some() {
            let since = self.permit(task).map_or(now, |place| place.since);
            self.places.retain(|place| place.task != task);
            self.places.push(Permit { task, since, until, pending: false });
            self.places.sort_by_key(|place| (place.since, place.task));
        }
        if let Some(rate) = limit.rate {
            let due = self.paced.unwrap_or(0).max(micros(now));
            self.paced = Some(due.saturating_add(rate.interval()));
        }
    }

    /// Releases the permit of `task`.
    pub(crate) fn release(
        &mut self,
        task: TaskId,
        now: Timestamp,
        verdict: KeyVerdict,
        breaker: Option<BreakerRule>,
    ) -> bool {
        self.places.retain(|place| place.task != task);
        self.tidy(now);
        let Some(rule) = breaker else { return false };
        match verdict {
            KeyVerdict::Answered => self.breaker.answered(task),
            KeyVerdict::Failed => return self.breaker.failed(task, now, &rule),
            KeyVerdict::Unheard => self.breaker.given_up(task, now),
        }
        false
    }

    /// Extends the permit of `task` to `until`.
    pub(crate) fn extend_permit(&mut self, task: TaskId, until: Timestamp, pending: bool) {
        for place in self.places.iter_mut().filter(|place| place.task == task) {
            place.until = until;
            place.pending = pending;
        }
        self.breaker.renew(task, until);
    }

    /// Closes the key until the latest end of all its closures.
    pub(crate) fn close(&mut self, closing: KeyClosure) {
        let longer = match (&self.closed, closing.until) {
            (None, _) | (Some(_), None) => true,
            (Some(KeyClosure { until: None, .. }), Some(_)) => false,
            (Some(KeyClosure { until: Some(before), .. }), Some(until)) => until > *before,
        };
        if longer {
            self.closed = Some(closing);
        }
    }

    /// Returns how many more attempts could start, by permits, closure and breaker.
    pub(crate) fn free_permits(&self, limit: Option<&Limit>, now: Timestamp) -> usize {
        if self.closed.as_ref().is_some_and(|closed| closed.until.is_none_or(|until| until > now)) {
            return 0;
        }
        let places = limit.and_then(|limit| limit.concurrency);
        let free =
            places.map_or(usize::MAX, |of| (of as usize).saturating_sub(self.permits_in_use(now, None)));
        match self.breaker.state {
            BreakerState::Sound => free,
            BreakerState::Tripped { until } | BreakerState::Trying { until, .. } => {
                if until > now {
                    0
                } else {
                    free.min(1)
                }
            }
        }
    }

    pub(crate) fn permit(&self, task: TaskId) -> Option<&Permit> {
        self.places.iter().find(|place| place.task == task)
    }

    /// Removes expired state.
    fn tidy(&mut self, now: Timestamp) {
        self.places.retain(|place| place.until > now);
        self.paced = self.paced.filter(|paced| *paced > micros(now));
        self.closed = self.closed.take().filter(|closed| closed.until.is_none_or(|until| until > now));
    }
}

fn micros(at: Timestamp) -> u64 {
    at.0.saturating_mul(1_000)
}
