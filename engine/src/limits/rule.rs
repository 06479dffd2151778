//! The limits that operators set: one document for each key or pattern of keys.

use crate::{BreakerRule, Entity};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::Timestamp;

/// The longest key, in bytes.
const MAX_KEY_LENGTH: usize = 200;

/// The limit of a key, or of each key that a pattern matches. Stored under its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// The key, such as `cluster/eu-1`. A final `*` matches any end; each matching key is limited separately.
    pub key: String,
    /// The most concurrent attempts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// The most attempts begun in a span of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// The rule of the key's breaker, instead of the default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerRule>,
    /// The person who set it.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

/// How fast attempts may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// The number of attempts.
    pub times: u32,
    /// The span of time, over which they are evenly spread.
    pub per: Duration,
    /// The number of attempts that may start together after a quiet time; at least 1.
    pub burst: u32,
}

impl Rate {
    /// Returns the time between two attempts, in microseconds.
    pub(crate) fn interval(&self) -> u64 {
        let per = u64::try_from(self.per.as_micros()).unwrap_or(u64::MAX);
        (per / u64::from(self.times.max(1))).max(1)
    }
}

/// An invalid limit: the field, and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct LimitError {
    /// The invalid field.
    pub field: &'static str,
    /// The reason and the allowed values.
    pub why: String,
}

impl Entity for Limit {
    const COLLECTION: &'static str = "limits";
    const RETENTION: crate::Retention<Self> = crate::Retention::WithSubject;

    fn id(&self) -> String {
        self.key.clone()
    }
}

impl Limit {
    /// Creates a limit of `key` without any restriction.
    #[must_use]
    pub fn for_key(key: impl Into<String>) -> Self {
        Self {
            key: key.into(),
            concurrency: None,
            rate: None,
            breaker: None,
            set_by: String::new(),
            set_at: Timestamp(0),
        }
    }

    /// Checks the limit.
    ///
    /// # Errors
    /// Returns the first invalid field.
    pub fn validate(&self) -> Result<(), LimitError> {
        let wrong = |field, why: &str| Err(LimitError { field, why: why.into() });
        check_key(self.key.strip_suffix('*').unwrap_or(&self.key))?;
        if self.concurrency == Some(0) {
            return wrong("concurrency", "must be at least 1; to allow no attempts, close the key");
        }
        if let Some(rate) = &self.rate {
            if rate.times == 0 || rate.burst == 0 {
                return wrong("rate", "times and burst must be at least 1");
            }
            if rate.per.is_zero() || rate.per > Duration::from_secs(31 * 86_400) {
                return wrong("rate", "per must be more than 0 and at most 31 days");
            }
        }
        if self.breaker.is_some_and(|rule| rule.cap < rule.span || rule.span.is_zero()) {
            return wrong("breaker", "span must be more than 0, and cap at least span");
        }
        if self.concurrency.is_none() && self.rate.is_none() && self.breaker.is_none() {
            return wrong("concurrency", "a limit must set at least one of concurrency, rate and breaker");
        }
        Ok(())
    }
}

/// Refuses invalid keys. A key is `kind/name`, printable, without `*` and `:`.
pub(crate) fn check_key(key: &str) -> Result<(), LimitError> {
    let allowed = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '*' | ':');
    let named = key.split_once('/').is_some_and(|(kind, _)| !kind.is_empty());
    if !named || key.len() > MAX_KEY_LENGTH || !key.chars().all(allowed) {
        let why = format!(
            "{key:?} is not a key: use kind/name, such as cluster/eu-1 or tenant/*, in at most {MAX_KEY_LENGTH} bytes, \
             without spaces and colons, and with `*` only at its end"
        );
        return Err(LimitError { field: "key", why });
    }
    Ok(())
}

/// All limits in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct LimitRules(BTreeMap<String, Arc<Limit>>);

impl LimitRules {
    pub(crate) fn new(limits: impl IntoIterator<Item = Limit>) -> Self {
        Self(limits.into_iter().map(|limit| (limit.key.clone(), Arc::new(limit))).collect())
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Limit>> {
        self.0.values()
    }

    /// Returns the limit of `key`: its own, or that of the longest matching pattern.
    pub(crate) fn limit_for(&self, key: &str) -> Option<&Arc<Limit>> {
        if let Some(own) = self.0.get(key) {
            return Some(own);
        }
        let matching = self
            .0
            .iter()
            .filter(|(pattern, _)| pattern.strip_suffix('*').is_some_and(|prefix| key.starts_with(prefix)));
        matching.max_by_key(|(pattern, _)| pattern.len()).map(|(_, limit)| limit)
    }
}
