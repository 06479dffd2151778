//! Quiet hours of channels, in their local time zone.

use chrono::{Days, LocalResult, NaiveDate, NaiveTime, TimeZone as _, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// Daily quiet hours. They include midnight if the end is not later than the start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub struct QuietHours {
    from: NaiveTime,
    to: NaiveTime,
    zone: Tz,
}

/// The stored form of quiet hours.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    from: String,
    to: String,
    zone: String,
}

impl TryFrom<Written> for QuietHours {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        let clock = |name: &str, text: &str| {
            let read = NaiveTime::parse_from_str(text, "%H:%M");
            read.map_err(|_| format!("{name}: {text:?} is no time of day: write it like `22:00`"))
        };
        let zone = &written.zone;
        let (from, to) = (clock("from", &written.from)?, clock("to", &written.to)?);
        if from == to {
            return Err(format!(
                "to: from {from} to {to} is no span: leave the quiet hours out, or end them later"
            ));
        }
        let zone = zone
            .parse()
            .map_err(|_| format!("zone: {zone:?} is no time zone: write one like `Europe/Berlin`"))?;
        Ok(Self { from, to, zone })
    }
}

impl From<QuietHours> for Written {
    fn from(quiet: QuietHours) -> Self {
        let shown = |time: NaiveTime| time.format("%H:%M").to_string();
        Self { from: shown(quiet.from), to: shown(quiet.to), zone: quiet.zone.name().into() }
    }
}

impl QuietHours {
    /// Returns the end of the quiet hours that contain `at`. `None` outside quiet hours.
    #[must_use]
    pub fn quiet_until(&self, at: Timestamp) -> Option<Timestamp> {
        let local = Utc.timestamp_millis_opt(i64::try_from(at.0).ok()?).single()?.with_timezone(&self.zone);
        let (day, time) = (local.date_naive(), local.time());
        let over_midnight = self.to <= self.from;
        let ends = match (over_midnight, time >= self.from, time < self.to) {
            (false, true, true) | (true, false, true) => day,
            (true, true, _) => day.checked_add_days(Days::new(1))?,
            (false, _, _) | (true, false, false) => return None,
        };
        let end = self.moment(ends)?;
        // When clocks are set back, the end of the previous day may already have passed.
        (end > at).then_some(end)
    }

    /// Returns the end of the quiet hours on `day`. If clocks skip it, returns the first valid time after it.
    fn moment(&self, day: NaiveDate) -> Option<Timestamp> {
        let mut local = day.and_time(self.to);
        // No time zone skips more than a day, in steps of minutes.
        for _ in 0..=1_440 {
            match self.zone.from_local_datetime(&local) {
                LocalResult::Single(at) | LocalResult::Ambiguous(_, at) => {
                    return u64::try_from(at.timestamp_millis()).ok().map(Timestamp);
                }
                LocalResult::None => local = local.checked_add_signed(chrono::TimeDelta::minutes(1))?,
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quiet(from: &str, to: &str, zone: &str) -> QuietHours {
        QuietHours::try_from(Written { from: from.into(), to: to.into(), zone: zone.into() }).unwrap()
    }

    fn at(text: &str) -> Timestamp {
        let at = chrono::DateTime::parse_from_rfc3339(text).unwrap();
        Timestamp(u64::try_from(at.timestamp_millis()).unwrap())
    }

    #[test]
    fn an_overnight_span_ends_on_the_next_morning_in_its_zone() {
        let night = quiet("22:00", "07:00", "Europe/Berlin");
        let morning = Some(at("2026-11-22T06:00:00Z"));
        assert_eq!(night.quiet_until(at("2026-11-21T21:00:00Z")), morning, "22:00 in Berlin");
        assert_eq!(night.quiet_until(at("2026-11-22T05:59:59Z")), morning);
        assert_eq!(night.quiet_until(at("2026-11-22T06:00:00Z")), None, "the end is not quiet");
        assert_eq!(night.quiet_until(at("2026-11-21T20:59:59Z")), None);
        assert_eq!(
            night.quiet_until(at("2026-07-01T04:30:00Z")),
            Some(at("2026-07-01T05:00:00Z")),
            "in summer"
        );
    }

    #[test]
    fn a_span_within_a_day_starts_and_ends_on_that_day() {
        let lunch = quiet("12:00", "13:30", "UTC");
        assert_eq!(lunch.quiet_until(at("2026-11-22T12:10:00Z")), Some(at("2026-11-22T13:30:00Z")));
        assert_eq!(lunch.quiet_until(at("2026-11-22T13:30:00Z")), None);
        assert_eq!(lunch.quiet_until(at("2026-11-22T02:00:00Z")), None);
    }

    #[test]
    fn an_end_in_a_skipped_hour_is_the_first_moment_after_the_gap() {
        let short = quiet("01:00", "02:30", "Europe/Berlin");
        assert_eq!(short.quiet_until(at("2026-03-29T00:30:00Z")), Some(at("2026-03-29T01:00:00Z")));
    }

    #[test]
    fn an_invalid_span_is_refused_with_its_field() {
        for (from, to, zone, field) in [
            ("25:00", "07:00", "UTC", "from"),
            ("22:00", "seven", "UTC", "to"),
            ("22:00", "22:00", "UTC", "to"),
            ("22:00", "07:00", "Berlin", "zone"),
        ] {
            let written = Written { from: from.into(), to: to.into(), zone: zone.into() };
            let error = QuietHours::try_from(written).unwrap_err();
            assert!(error.starts_with(field), "{error}");
        }
    }
}
