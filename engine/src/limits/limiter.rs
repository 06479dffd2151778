//! What stands at one key: who is inside, how fast it may be entered, whether it is closed. Decisions are pure.

use crate::{Breaker, BreakerRule, BreakerState, Entity, Limit, Rate};
use serde::{Deserialize, Serialize};
use std::fmt;
use store::{TaskId, Timestamp};

/// What stands at one key. Persisted while there is something to tell.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limiter {
    /// The key.
    pub key: String,
    /// Who is inside, the earliest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<Permit>,
    /// When the next attempt would begin if all were spread evenly: microseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) paced: Option<u64>,
    /// Nothing is let in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<KeyClosure>,
    /// How its breaker stands.
    #[serde(default, skip_serializing_if = "Breaker::is_untouched")]
    pub breaker: Breaker,
}

/// One attempt that is inside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Permit {
    /// Whose attempt it is.
    pub task: TaskId,
    /// Since when.
    pub since: Timestamp,
    /// When it is free again unless renewed.
    pub until: Timestamp,
    /// It is kept while its action is pending: nobody is at work on it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub pending: bool,
}

/// Why nothing is let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyClosure {
    /// Until then; `None` until a person opens it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// Why, in words.
    pub why: String,
    /// Who closed it: a person, or the action that was told to stay away.
    pub by: String,
}

/// Why an attempt is not let in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Deferral {
    /// All places are taken, or those before it will take them.
    Full {
        /// Places taken.
        in_use: usize,
        /// Places in all.
        of: u32,
        /// Attempts that go first.
        before: usize,
    },
    /// It would be too fast.
    Paced {
        /// What is allowed.
        rate: Rate,
        /// Attempts that go first.
        before: usize,
    },
    /// The key is closed.
    Closed(KeyClosure),
    /// The breaker has tripped.
    Tripped {
        /// Failures in a row that made it trip.
        failures: u32,
    },
}

impl Deferral {
    /// The reason's stable code.
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
                write!(f, "left alone for a while after {failures} failures in a row")
            }
        }
    }
}

/// Not now: why, and when it could be otherwise. `None` where only somebody else's doing changes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) why: Deferral,
    pub(crate) until: Option<Timestamp>,
}

/// What holds for an attempt at a key.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyTerms<'a> {
    pub(crate) limit: Option<&'a Limit>,
    pub(crate) breaker: Option<BreakerRule>,
    /// Attempts in the line that go first.
    pub(crate) ahead: usize,
}

/// How an attempt ended, for the keys it passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyVerdict {
    /// What it was addressed to has answered, whatever the answer was.
    Answered,
    /// It failed in a way that may be the key's.
    Failed,
    /// Nothing was learnt.
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

    /// Nothing has to be remembered of it.
    pub(crate) fn is_plain(&self) -> bool {
        self.places.is_empty() && self.paced.is_none() && self.closed.is_none() && self.breaker.is_untouched()
    }

    /// Places taken at `now`, but for that of `task`.
    pub(crate) fn permits_in_use(&self, now: Timestamp, task: Option<TaskId>) -> usize {
        self.places.iter().filter(|place| place.until > now && Some(place.task) != task).count()
    }

    /// Whether `task` may be attempted at `now`.
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
        // What is inside already does not wait for a place of its own.
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

    /// When an attempt may begin that lets `before` others go first, in microseconds since 1970.
    fn paced_from(&self, rate: Rate, before: usize) -> u64 {
        let interval = rate.interval();
        let before = u64::try_from(before).unwrap_or(u64::MAX);
        let due = self.paced.unwrap_or(0).saturating_add(interval.saturating_mul(before));
        due.saturating_sub(interval.saturating_mul(u64::from(rate.burst.max(1)) - 1))
    }

    /// Lets `task` in, until `until` unless renewed.
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

    /// Lets `task` out.
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

    /// Keeps the place of `task` until `until`.
    pub(crate) fn extend_permit(&mut self, task: TaskId, until: Timestamp, pending: bool) {
        for place in self.places.iter_mut().filter(|place| place.task == task) {
            place.until = until;
            place.pending = pending;
        }
        self.breaker.renew(task, until);
    }

    /// Closes the key for as long as the longest of all that closed it say.
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

    /// How many more could be let in, as far as places, closing and breaker go.
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

    /// Forgets what has passed.
    fn tidy(&mut self, now: Timestamp) {
        self.places.retain(|place| place.until > now);
        self.paced = self.paced.filter(|paced| *paced > micros(now));
        self.closed = self.closed.take().filter(|closed| closed.until.is_none_or(|until| until > now));
    }
}

fn micros(at: Timestamp) -> u64 {
    at.0.saturating_mul(1_000)
}
