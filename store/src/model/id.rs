//! Ids, counters and times. Each is a separate type, so that they cannot be confused.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr, time::Duration};
use uuid::{Builder, Uuid};

/// A point in time: milliseconds since 1970-01-01T00:00:00Z.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Timestamp(pub u64);

impl Timestamp {
    /// This instant plus `span`, to the millisecond, never past the end of time.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(span.as_millis()).unwrap_or(u64::MAX)))
    }

    /// Returns the time since `earlier`, or zero if this instant is before it.
    #[must_use]
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }

    /// Returns true if this instant is less than `span` away from `now`, before or after it. So an instant from a
    /// clock that was ahead is not recent after that clock is set back.
    #[must_use]
    pub fn is_recent(self, span: Duration, now: Self) -> bool {
        now.since(self) < span && self.since(now) < span
    }
}

/// Names one execution. A UUID of version 7, so that ids sort by the moment they were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ExecutionId(Uuid);

impl ExecutionId {
    /// Creates an id for an execution requested at `at`; `random` makes it unique.
    #[must_use]
    pub fn new(at: Timestamp, random: [u8; 10]) -> Self {
        Self(Builder::from_unix_timestamp_millis(at.0, &random).into_uuid())
    }

    /// The id before all others.
    #[cfg(feature = "embedded")]
    pub(crate) const FIRST: Self = Self(Uuid::nil());
    /// The id behind all others.
    #[cfg(feature = "embedded")]
    pub(crate) const LAST: Self = Self(Uuid::max());

    /// The id right behind this one; `None` for the last.
    #[cfg(feature = "embedded")]
    pub(crate) fn next(self) -> Option<Self> {
        self.0.as_u128().checked_add(1).map(|next| Self(Uuid::from_u128(next)))
    }

    /// Returns the time within the id: the time of the request.
    #[must_use]
    pub fn created_at(&self) -> Timestamp {
        let [a, b, c, d, e, f, ..] = *self.0.as_bytes();
        Timestamp(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    /// The smallest id of those made at `at`, for ranges.
    #[must_use]
    pub fn first_at(at: Timestamp) -> Self {
        let [_, _, a, b, c, d, e, f] = at.0.min((1 << 48) - 1).to_be_bytes();
        Self(Uuid::from_bytes([a, b, c, d, e, f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]))
    }

    /// The sixteen bytes of the id, in the order in which ids sort.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// The id with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(Uuid::from_bytes(bytes))
    }

    /// The id of its trace, which is its own without the dashes.
    #[must_use]
    pub fn trace_id(&self) -> impl fmt::Display + use<> {
        self.0.simple()
    }
}

impl fmt::Display for ExecutionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

/// An invalid execution id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an execution id: expected a UUID such as 019a9f3c-5b1e-7c3a-9d1e-0123456789ab")]
pub struct ParseIdError(String);

impl FromStr for ExecutionId {
    type Err = ParseIdError;

    fn from_str(text: &str) -> Result<Self, ParseIdError> {
        Uuid::try_parse(text).map(Self).map_err(|_| ParseIdError(text.chars().take(64).collect()))
    }
}

/// Counts the committed versions of one record, from 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Revision(pub u64);

impl Revision {
    /// The version after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Counts the commits of a store, from 1. A document's version is the sequence of the commit that wrote it, so a
/// document deleted and made again is never mistaken for the old one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Sequence(pub u64);

/// A fencing token: grows with every lease of a store, over restarts too. Of two holders of one task, the one
/// with the smaller epoch is late.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Epoch(pub u64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_of_a_clock_that_was_ahead_are_not_recent() {
        let (span, now) = (Duration::from_millis(5), Timestamp(100));
        for (noted, recent) in [(94, false), (95, false), (96, true), (100, true), (104, true), (105, false)]
        {
            assert_eq!(Timestamp(noted).is_recent(span, now), recent, "{noted}");
        }
    }
}
