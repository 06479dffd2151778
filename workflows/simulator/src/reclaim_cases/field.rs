//! A JSON value in a case file with its case and key, so that every error names both.

use super::Broken;
use serde_json::Value;
use std::{collections::BTreeMap, fmt};
use workflows::scheduling::planner::{Amounts, Quota, ResourceKind, Sharing, Weight};

/// A position in a case, for errors.
#[derive(Clone)]
pub(super) struct At<'a> {
    pub(super) case: &'a str,
    pub(super) key: String,
    pub(super) value: &'a Value,
}

impl<'a> At<'a> {
    pub(super) fn wrong<T>(&self, why: impl Into<String>) -> Result<T, Broken> {
        let key = if self.key.is_empty() { "the case" } else { &self.key };
        Err(Broken { case: self.case.to_owned(), key: key.to_owned(), why: why.into() })
    }

    pub(super) fn refuse(&self, why: &dyn fmt::Display) -> Broken {
        Broken { case: self.case.to_owned(), key: self.key.clone(), why: why.to_string() }
    }

    /// Returns the value of a key; null counts as absent.
    pub(super) fn maybe(&self, key: &str) -> Option<Self> {
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Some(Self { case: self.case, key, value })
    }

    pub(super) fn get(&self, key: &str) -> Result<Self, Broken> {
        if let Some(found) = self.maybe(key) {
            return Ok(found);
        }
        let key = if self.key.is_empty() { key.to_owned() } else { format!("{}.{key}", self.key) };
        Err(Broken { case: self.case.to_owned(), key, why: "is missing".to_owned() })
    }

    pub(super) fn list(&self) -> Result<Vec<Self>, Broken> {
        let Some(list) = self.value.as_array() else { return self.wrong("must be a list") };
        let each = list.iter().enumerate();
        Ok(each
            .map(|(at, value)| Self { case: self.case, key: format!("{}[{at}]", self.key), value })
            .collect())
    }

    pub(super) fn map(&self) -> Result<Vec<(&'a String, Self)>, Broken> {
        let Some(map) = self.value.as_object() else { return self.wrong("must be an object") };
        let each = map.iter().collect::<BTreeMap<_, _>>().into_iter();
        Ok(each
            .map(|(name, value)| {
                (name, Self { case: self.case, key: format!("{}[\"{name}\"]", self.key), value })
            })
            .collect())
    }

    pub(super) fn text(&self) -> Result<&'a str, Broken> {
        self.value.as_str().map_or_else(|| self.wrong("must be a string"), Ok)
    }

    pub(super) fn count(&self) -> Result<u64, Broken> {
        self.value.as_u64().map_or_else(|| self.wrong("must be a whole number of at least 0"), Ok)
    }

    pub(super) fn integer(&self) -> Result<i64, Broken> {
        self.value.as_i64().map_or_else(|| self.wrong("must be a whole number"), Ok)
    }

    /// Reads seconds as milliseconds.
    pub(super) fn seconds(&self) -> Result<i64, Broken> {
        match (self.value.as_i64(), self.value.as_f64()) {
            (Some(whole), _) => Ok(whole.saturating_mul(1000)),
            #[allow(clippy::cast_possible_truncation, reason = "casts from floats saturate")]
            (None, Some(part)) => Ok((part * 1000.0).round() as i64),
            (None, None) => self.wrong("must be a number of seconds"),
        }
    }

    pub(super) fn flag(&self) -> Result<bool, Broken> {
        self.value.as_bool().map_or_else(|| self.wrong("must be true or false"), Ok)
    }

    pub(super) fn kind(&self, name: &str) -> Result<ResourceKind, Broken> {
        name.parse().map_err(|error| self.refuse(&error))
    }

    pub(super) fn amounts(&self) -> Result<Amounts, Broken> {
        self.map()?.into_iter().map(|(name, amount)| Ok((amount.kind(name)?, amount.count()?))).collect()
    }

    pub(super) fn weight(&self) -> Result<Sharing, Broken> {
        let Some(weight) = self.maybe("fair_weight") else { return Ok(Sharing::default()) };
        let Some(number) = weight.value.as_f64().filter(|number| *number >= 0.0) else {
            return weight.wrong("must be a number of at least 0");
        };
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "casts from floats saturate"
        )]
        let billionths = (number * 1e9).round() as u64;
        Ok(Sharing { weight: Weight::billionths(billionths), min_runtime: None })
    }

    pub(super) fn quotas(&self) -> Result<Vec<(ResourceKind, Quota)>, Broken> {
        let Some(quotas) = self.maybe("quotas") else { return Ok(Vec::new()) };
        let each = quotas.map()?.into_iter().map(|(name, quota)| {
            let count = |key| quota.maybe(key).map(|count| count.count()).transpose();
            let of = Quota {
                nominal: count("nominal")?.unwrap_or_default(),
                borrowing_limit: count("borrowing_limit")?,
                lending_limit: count("lending_limit")?,
            };
            Ok((quota.kind(name)?, of))
        });
        each.collect()
    }
}
