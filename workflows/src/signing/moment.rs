//! Timestamps of records: RFC 3339 in UTC, with milliseconds.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};
use store::Timestamp;

/// A timestamp in exactly one form: `2026-11-21T13:08:11.000Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Moment(u64);

/// The last millisecond of the year 9999, in milliseconds since 1970. RFC 3339 has no later years.
const LAST: u64 = 253_402_300_799_999;

impl Moment {
    /// Returns the milliseconds since 1970-01-01T00:00:00Z.
    #[must_use]
    pub fn millis(self) -> u64 {
        self.0
    }

    /// Returns the time `days` days later, at most the end of the year 9999.
    #[must_use]
    pub fn after_days(self, days: u32) -> Self {
        Self(self.0.saturating_add(u64::from(days) * 86_400_000).min(LAST))
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self(at.0.min(LAST))
    }
}

impl From<Moment> for Timestamp {
    fn from(at: Moment) -> Self {
        Self(at.0)
    }
}

impl From<Moment> for String {
    fn from(at: Moment) -> Self {
        at.to_string()
    }
}

impl TryFrom<String> for Moment {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no moment: write it like 2026-11-21T13:08:11.000Z");
        let read = DateTime::parse_from_rfc3339(&text).map_err(|_| wrong())?;
        let moment = u64::try_from(read.timestamp_millis()).map(Self).map_err(|_| wrong())?;
        if moment.to_string() == text { Ok(moment) } else { Err(wrong()) }
    }
}

/// Parses any RFC 3339 time, with or without fractions of a second, in any zone.
impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is no moment: write it like 2026-11-21T13:08:11Z");
        let read = DateTime::parse_from_rfc3339(text).map_err(|_| wrong())?;
        u64::try_from(read.timestamp_millis()).map(Self).map_err(|_| wrong())
    }
}

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = i64::try_from(self.0).ok().and_then(DateTime::<Utc>::from_timestamp_millis);
        f.write_str(&at.unwrap_or_default().to_rfc3339_opts(SecondsFormat::Millis, true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_stored_timestamp_is_parsed_in_exactly_one_notation() {
        for at in [0, 1, 1_795_266_491_000, LAST, u64::MAX] {
            let moment = Moment::from(Timestamp(at));
            assert_eq!(Moment::try_from(moment.to_string()), Ok(moment));
        }
        for text in [
            "",
            "2026-11-21",
            "2026-11-21T13:08:11Z",
            "2026-11-21T13:08:11.000+00:00",
            "1960-01-01T00:00:00.000Z",
        ] {
            assert!(Moment::try_from(text.to_owned()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_hand_written_timestamp_is_accepted_in_every_notation() {
        let same = ["2026-11-21T13:08:11Z", "2026-11-21T14:08:11.000+01:00", "2026-11-21t13:08:11.0004z"];
        for text in same {
            assert_eq!(text.parse(), Ok(Moment(1_795_266_491_000)), "{text}");
        }
        for text in ["", "2026-11-21", "tomorrow", "1960-01-01T00:00:00Z"] {
            assert!(text.parse::<Moment>().is_err(), "{text}");
        }
    }
}
