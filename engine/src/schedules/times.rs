//! Times of a schedule: a cron expression in a time zone, with rules for skipped and repeated hours.
//!
//! An [`Expression`] names wall-clock times, which are mapped to instants here. Times of day follow [`Gap`] and
//! [`Fold`]; intervals keep their distance in real time over every clock change.

use super::expression::Expression;
use chrono::{
    DateTime, Duration as Span, LocalResult, NaiveDate, NaiveDateTime, Offset as _, SecondsFormat, TimeZone,
    Timelike as _, Utc,
};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use std::str::FromStr;
use store::Timestamp;

/// The largest clock change.
const MARGIN: Span = Span::hours(3);

/// How to handle a wall-clock time that a clock change skips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// Skip it.
    Skip,
    /// Use the first moment after the gap.
    Shift,
}

/// How to handle a wall-clock time that a clock change repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fold {
    /// Use the earlier.
    First,
    /// Use the later.
    Last,
    /// Use both.
    Both,
}

/// A cron expression in a time zone.
#[derive(Clone, Debug)]
pub struct Times {
    walls: Expression,
    zone: Tz,
    gap: Gap,
    fold: Fold,
}

/// An invalid schedule.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The expression is invalid.
    #[error(
        "schedule {name}: cron: {expression:?} is not a cron expression: {why}; write `minute hour day month weekday`, such as `30 2 * * *`, optionally with seconds in front"
    )]
    Expression {
        /// The schedule.
        name: String,
        /// The expression.
        expression: String,
        /// The invalid part, and its allowed values.
        why: String,
    },
    /// The zone is unknown.
    #[error(
        "schedule {name}: zone: {zone:?} is not a time zone; use an IANA name such as Europe/Berlin, or UTC"
    )]
    Zone {
        /// The schedule.
        name: String,
        /// The zone.
        zone: String,
    },
    /// The zone has clock changes, and the schedule does not define how to handle them.
    #[error(
        "schedule {name}: skipped_hour, repeated_hour: clocks change in {zone}; set `skipped_hour` to `shift` or `skip`, and `repeated_hour` to `first`, `last` or `both`"
    )]
    Shifts {
        /// The schedule.
        name: String,
        /// Its zone.
        zone: String,
    },
    /// Another field is invalid.
    #[error("schedule {name}: {field}: {why}")]
    Field {
        /// The schedule.
        name: String,
        /// The field.
        field: &'static str,
        /// The problem and the remedy.
        why: String,
    },
}

impl Times {
    /// Returns the times of schedule `name` by `expression` (five fields, or six or seven with seconds first and a
    /// year last) in `zone`. `shifts` may be omitted for zones without clock changes. It applies to times of day. An
    /// expression whose minute or hour is open (it begins with `*`, or names all values) is an interval: a repeated
    /// hour counts twice, so that occurrences keep their distance in real time. If it names every hour, nothing is
    /// moved out of a skipped one.
    ///
    /// # Errors
    /// Returns a [`ScheduleError`] with the schedule and the remedy.
    pub fn new(
        name: &str,
        expression: &str,
        zone: &str,
        shifts: Option<(Gap, Fold)>,
    ) -> Result<Self, ScheduleError> {
        let unknown = || ScheduleError::Zone { name: name.into(), zone: zone.into() };
        let tz = Tz::from_str(zone).map_err(|_| unknown())?;
        let wrong = |why| ScheduleError::Expression { name: name.into(), expression: expression.into(), why };
        let walls = Expression::parse(expression).map_err(wrong)?;
        if shifts.is_none() && changes_clocks(tz) {
            return Err(ScheduleError::Shifts { name: name.into(), zone: zone.into() });
        }
        let (gap, fold) = shifts.unwrap_or((Gap::Shift, Fold::First));
        let gap = if walls.is_every_hour() { Gap::Skip } else { gap };
        let fold = if walls.is_interval() { Fold::Both } else { fold };
        Ok(Self { walls, zone: tz, gap, fold })
    }

    /// Returns true if they are an interval: the minute or the hour of the expression is open.
    pub(crate) fn is_interval(&self) -> bool {
        self.walls.is_interval()
    }

    /// Returns the day of `at` in the zone.
    #[must_use]
    pub fn day(&self, at: Timestamp) -> Option<NaiveDate> {
        Some(instant(at)?.with_timezone(&self.zone).date_naive())
    }

    /// Returns the first moment after `day` in the zone.
    pub(crate) fn end_of(&self, day: NaiveDate) -> Option<Timestamp> {
        let midnight = day.succ_opt()?.and_hms_opt(0, 0, 0)?;
        // If clocks change at midnight, that moment may not exist, but the one an hour later does.
        let after = [midnight, midnight + Span::hours(1)];
        let at = after.iter().find_map(|wall| self.zone.from_local_datetime(wall).earliest())?;
        u64::try_from(at.timestamp_millis()).ok().map(Timestamp)
    }

    /// Formats `at` as local time with its offset from UTC: RFC 3339, to the second.
    #[must_use]
    pub fn format_local(&self, at: Timestamp) -> String {
        let local =
            instant(at).map(|at| at.with_timezone(&self.zone).to_rfc3339_opts(SecondsFormat::Secs, true));
        local.unwrap_or_default()
    }

    /// Returns the first occurrence after `after`, or `None` without one.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = instant(after)?;
        let found = self.next_on_steady_clocks(after).or_else(|| self.next_around_a_change(after))?;
        u64::try_from(found.timestamp_millis()).ok().map(Timestamp)
    }

    /// Returns the next occurrence, if clocks change neither around `after` nor around it.
    fn next_on_steady_clocks(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let local = after.with_timezone(&self.zone).naive_local();
        let wall = self.walls.next_after(local)?;
        let [found] = self.instants(wall)[..] else { return None };
        let steady = |at: DateTime<Utc>| {
            let offset = |at: DateTime<Utc>| self.zone.offset_from_utc_datetime(&at.naive_utc()).fix();
            offset(at - MARGIN) == offset(at) && offset(at) == offset(at + MARGIN)
        };
        (steady(after) && steady(found)).then_some(found)
    }

    /// Returns the next occurrence around a clock change. Wall-clock order is not the order of instants there, so
    /// this searches a little back and ahead.
    fn next_around_a_change(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let from = after.with_timezone(&self.zone).naive_local() - MARGIN;
        let mut best: Option<DateTime<Utc>> = None;
        let mut until: Option<NaiveDateTime> = None;
        let first = self.walls.next_after(from);
        for wall in std::iter::successors(first, |last| self.walls.next_after(*last)) {
            if until.is_some_and(|until| wall > until) {
                break;
            }
            let found = self.instants(wall).into_iter().filter(|at| *at > after).min();
            if let Some(found) = found {
                best = Some(best.map_or(found, |best| best.min(found)));
                until.get_or_insert(wall + MARGIN);
            }
        }
        best
    }

    /// Returns the instants of a wall-clock time.
    fn instants(&self, wall: NaiveDateTime) -> Vec<DateTime<Utc>> {
        match self.zone.from_local_datetime(&wall) {
            LocalResult::Single(at) => vec![at.to_utc()],
            LocalResult::Ambiguous(first, last) => match self.fold {
                Fold::First => vec![first.to_utc()],
                Fold::Last => vec![last.to_utc()],
                Fold::Both => vec![first.to_utc(), last.to_utc()],
            },
            LocalResult::None => match self.gap {
                Gap::Skip => vec![],
                Gap::Shift => {
                    // Clocks change at a full minute.
                    let minute = wall.with_second(0).unwrap_or(wall);
                    let minutes = (1..=180).map(|n| minute + Span::minutes(n));
                    let first = minutes
                        .map(|wall| self.zone.from_local_datetime(&wall))
                        .find_map(LocalResult::earliest);
                    first.map(|at| at.to_utc()).into_iter().collect()
                }
            },
        }
    }
}

fn instant(at: Timestamp) -> Option<DateTime<Utc>> {
    DateTime::<Utc>::from_timestamp_millis(i64::try_from(at.0).ok()?)
}

/// Formats `at` in UTC for reasons: RFC 3339, to the second.
pub(crate) fn utc(at: Timestamp) -> String {
    instant(at).map(|at| at.to_rfc3339_opts(SecondsFormat::Secs, true)).unwrap_or_default()
}

fn changes_clocks(zone: Tz) -> bool {
    use chrono::Offset as _;
    let offset = |year, month| {
        let noon = Utc.with_ymd_and_hms(year, month, 15, 12, 0, 0).single();
        noon.map(|at| at.with_timezone(&zone).offset().fix().local_minus_utc())
    };
    // A zone may begin to change its clocks in a later year.
    let months = (2026..=2037).flat_map(|year| (1..=12).map(move |month| (year, month)));
    months.into_iter().any(|(year, month)| offset(year, month) != offset(2026, 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp(u64::try_from(text.parse::<DateTime<Utc>>().unwrap().timestamp_millis()).unwrap())
    }

    fn new_york(expression: &str, gap: Gap, fold: Fold) -> Times {
        Times::new("nightly", expression, "America/New_York", Some((gap, fold))).unwrap()
    }

    #[test]
    fn a_nightly_run_in_a_skipped_hour_is_shifted_or_skipped_by_setting() {
        let shift = new_york("30 2 * * *", Gap::Shift, Fold::First);
        assert_eq!(shift.next_after(at("2026-03-08T05:00:00Z")), Some(at("2026-03-08T07:00:00Z")));
        let skip = new_york("30 2 * * *", Gap::Skip, Fold::First);
        assert_eq!(skip.next_after(at("2026-03-08T05:00:00Z")), Some(at("2026-03-09T06:30:00Z")));
    }

    #[test]
    fn the_fast_path_on_steady_clocks_agrees_with_the_full_search() {
        let hour = 3_600_000;
        for expression in ["* * * * *", "30 2 * * *", "0 */3 * * 1-5", "15 1 8 3 *"] {
            for (gap, fold) in [(Gap::Shift, Fold::First), (Gap::Skip, Fold::Both)] {
                let schedule = new_york(expression, gap, fold);
                let mut after = at("2026-03-06T00:00:00Z").0;
                for step in 0..400 {
                    // From around one change of clocks to around the other.
                    after = if step == 200 { at("2026-10-30T00:00:00Z").0 } else { after };
                    after += (step % 3) * hour / 2 + 61_001;
                    let moment =
                        DateTime::<Utc>::from_timestamp_millis(i64::try_from(after).unwrap()).unwrap();
                    let long = schedule.next_around_a_change(moment);
                    assert_eq!(
                        schedule.next_after(Timestamp(after)).map(|at| at.0),
                        long.map(|at| u64::try_from(at.timestamp_millis()).unwrap()),
                        "{expression} after {moment}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_nightly_run_in_a_repeated_hour_happens_once_or_twice_by_setting() {
        let midnight = at("2026-11-01T04:00:00Z");
        let first = new_york("30 1 * * *", Gap::Shift, Fold::First);
        assert_eq!(first.next_after(midnight), Some(at("2026-11-01T05:30:00Z")));
        assert_eq!(first.next_after(at("2026-11-01T05:30:00Z")), Some(at("2026-11-02T06:30:00Z")));
        let both = new_york("30 1 * * *", Gap::Shift, Fold::Both);
        assert_eq!(both.next_after(at("2026-11-01T05:30:00Z")), Some(at("2026-11-01T06:30:00Z")));
    }

    #[test]
    fn sunday_is_0_and_7_and_monday_is_1() {
        for (day, expected) in
            [("0", "2026-11-22"), ("7", "2026-11-22"), ("1", "2026-11-23"), ("1-5", "2026-11-23")]
        {
            let schedule = Times::new("weekly", &format!("0 12 * * {day}"), "UTC", None).unwrap();
            let expected = at(&format!("{expected}T12:00:00Z"));
            assert_eq!(schedule.next_after(at("2026-11-21T13:00:00Z")), Some(expected), "{day}");
        }
    }

    #[test]
    fn a_zone_whose_clocks_change_needs_both_settings() {
        let missing = Times::new("nightly", "30 2 * * *", "Europe/Berlin", None).unwrap_err().to_string();
        assert_eq!(
            missing,
            "schedule nightly: skipped_hour, repeated_hour: clocks change in Europe/Berlin; set \
             `skipped_hour` to `shift` or `skip`, and `repeated_hour` to `first`, `last` or `both`"
        );
    }

    #[test]
    fn an_invalid_expression_is_reported_with_its_field_as_written() {
        for (expression, said) in [
            ("30 25 * * *", "hour \"25\" is not valid: it takes 0 to 23"),
            ("30 2 * * 8", "weekday \"8\" is not valid: it takes 0 to 7"),
            ("0 61 2 * * *", "minute \"61\" is not valid: it takes 0 to 59"),
            ("0 2 * FOO *", "month \"FOO\" is not valid"),
            ("every day", "it has 2 fields"),
        ] {
            let error = Times::new("nightly", expression, "UTC", None).unwrap_err().to_string();
            let all = format!("cron: {expression:?} is not a cron expression: {said}");
            assert!(error.contains(&all), "{error}");
        }
        let zone = Times::new("nightly", "30 2 * * *", "Berlin", None).unwrap_err().to_string();
        assert!(zone.contains("zone: \"Berlin\" is not a time zone"), "{zone}");
    }
}
