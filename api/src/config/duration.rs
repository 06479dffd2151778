//! Durations in settings.

use serde::{Deserialize, Serialize, de::Error as _};
use std::time::Duration;
use workflows::policy::duration;

/// A duration, written like `30s` or `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigDuration(pub Duration);

impl Serialize for ConfigDuration {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.serialize_str(&duration::show(self.0))
    }
}

impl<'de> Deserialize<'de> for ConfigDuration {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        let wrong =
            || D::Error::custom(format!("{text:?} is not a duration: write it like `30s` or `1h30m`"));
        duration::parse(&text).map(Self).ok_or_else(wrong)
    }
}

/// A retention period; `None` is unlimited, and written `never`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetentionPeriod(pub Option<Duration>);

impl Serialize for RetentionPeriod {
    fn serialize<S: serde::Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Some(span) => out.serialize_str(&duration::show(span)),
            None => out.serialize_str("never"),
        }
    }
}

impl<'de> Deserialize<'de> for RetentionPeriod {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        if text == "never" {
            return Ok(Self(None));
        }
        let wrong = || D::Error::custom(format!("{text:?} is neither a duration like `400d` nor `never`"));
        duration::parse(&text).map(|span| Self(Some(span))).ok_or_else(wrong)
    }
}
