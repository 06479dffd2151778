//! What operators allow: a document a key, or a pattern of keys.

use crate::{BreakerRule, Entity};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc, time::Duration};
use store::Timestamp;

/// The longest key, in bytes.
const MAX_KEY_LENGTH: usize = 200;

/// What is allowed at a key, or at each of the keys that a pattern names. Persisted under its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limit {
    /// Such as `cluster/eu-1`; a `*` at the end stands for anything, and each key that it matches counts by itself.
    pub key: String,
    /// Attempts at work at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// Attempts begun in a span of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
    /// When the key's breaker trips, where the default will not do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub breaker: Option<BreakerRule>,
    /// Who set it.
    pub set_by: String,
    /// When.
    pub set_at: Timestamp,
}

/// How fast attempts may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    /// So many …
    pub times: u32,
    /// … in this span, evenly spread.
    pub per: Duration,
    /// So many at once after a quiet while, at least 1.
    pub burst: u32,
}

impl Rate {
    /// Between two attempts, in microseconds.
    pub(crate) fn interval(&self) -> u64 {
        let per = u64::try_from(self.per.as_micros()).unwrap_or(u64::MAX);
        (per / u64::from(self.times.max(1))).max(1)
    }
}

/// What is wrong with a limit: the field, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct LimitError {
    /// The field at fault.
    pub field: &'static str,
    /// Why, and what it should be.
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
    /// A limit of `key` that limits nothing yet.
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

    /// Whether it can be put into force.
    ///
    /// # Errors
    /// The first field at fault.
    pub fn validate(&self) -> Result<(), LimitError> {
        let wrong = |field, why: &str| Err(LimitError { field, why: why.into() });
        check_key(self.key.strip_suffix('*').unwrap_or(&self.key))?;
        if self.concurrency == Some(0) {
            return wrong("concurrency", "must be at least 1; to let nothing in, close the key by hand");
        }
        if let Some(rate) = &self.rate {
            if rate.times == 0 || rate.burst == 0 {
                return wrong("rate", "times and burst must be at least 1");
            }
            if rate.per.is_zero() || rate.per > Duration::from_secs(31 * 86_400) {
                return wrong("rate", "per must be more than nothing and no more than 31 days");
            }
        }
        if self.breaker.is_some_and(|rule| rule.cap < rule.span || rule.span.is_zero()) {
            return wrong("breaker", "span must be more than nothing, and cap no less than span");
        }
        if self.concurrency.is_none() && self.rate.is_none() && self.breaker.is_none() {
            return wrong("concurrency", "a limit must set at least one of concurrency, rate and breaker");
        }
        Ok(())
    }
}

/// Refuses what cannot be a key: `kind/name`, printable, without `*` and `:`.
pub(crate) fn check_key(key: &str) -> Result<(), LimitError> {
    let allowed = |c: char| !c.is_control() && !c.is_whitespace() && !matches!(c, '*' | ':');
    let named = key.split_once('/').is_some_and(|(kind, _)| !kind.is_empty());
    if !named || key.len() > MAX_KEY_LENGTH || !key.chars().all(allowed) {
        let why = format!(
            "{key:?} is no key: write kind/name, such as cluster/eu-1 or tenant/*, in at most {MAX_KEY_LENGTH} bytes, \
             without spaces and colons and with `*` at its end alone"
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

    /// The limit of `key`: its own, else that of the longest pattern that matches it.
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
