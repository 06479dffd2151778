//! When something recurs: a cron expression in a time zone, with what to do about the hours that a zone skips or repeats.
//!
//! Expressions are parsed by the `cron` crate, read as wall-clock time, and mapped to instants here, since the crate alone
//! would silently drop a nightly run in spring and do it twice in autumn. An occurrence is a document, written in the
//! commit that claims it: so it is fired once, whoever else looks at the same schedule, and it is on record.

use crate::{Engine, Error};
use chrono::{DateTime, Duration as Span, LocalResult, NaiveDateTime, Offset as _, TimeZone, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};
use std::{collections::VecDeque, str::FromStr};
use store::{Commit, Key, Put, Read, Timestamp};

/// Clocks change by no more than this.
const MARGIN: Span = Span::hours(3);

/// What to do with a wall-clock time that does not exist on a day, since clocks go forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gap {
    /// Leave it out.
    Skip,
    /// Take the first moment after the gap.
    Shift,
}

/// What to do with a wall-clock time that exists twice on a day, since clocks go back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// Take the earlier.
    First,
    /// Take the later.
    Last,
    /// Take both.
    Both,
}

/// A cron expression in a time zone.
#[derive(Clone, Debug)]
pub struct Schedule {
    name: String,
    times: cron::Schedule,
    zone: Tz,
    shifts: Option<(Gap, Overlap)>,
}

/// A schedule that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScheduleError {
    /// The expression is none.
    #[error(
        "schedule {name}: {expression:?} is not a cron expression ({why}); write `minute hour day month weekday`, seconds first if wanted"
    )]
    Expression {
        /// Which schedule.
        name: String,
        /// What was written.
        expression: String,
        /// What the parser said.
        why: String,
    },
    /// The zone is none.
    #[error(
        "schedule {name}: {zone:?} is not a time zone; write one of the IANA database, such as Europe/Berlin, or UTC"
    )]
    Zone {
        /// Which schedule.
        name: String,
        /// What was written.
        zone: String,
    },
    /// The zone changes its clocks and the schedule does not say what to do then.
    #[error(
        "schedule {name}: clocks change in {zone}; say what to do with hours that are skipped or repeated"
    )]
    Shifts {
        /// Which schedule.
        name: String,
        /// Its zone.
        zone: String,
    },
}

/// An occurrence, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occurrence {
    /// The schedule.
    pub schedule: String,
    /// When it was due.
    pub nominal: Timestamp,
    /// When it was taken up.
    pub at: Timestamp,
    /// `fired`, or `missed` when a later one was due as well by then.
    pub fate: String,
}

const OCCURRENCES: &str = "occurrences";
const SCHEDULES: &str = "schedules";

impl Schedule {
    /// A schedule of `expression` (five fields, or six or seven with seconds first and a year last) in `zone`. `shifts` may
    /// be left out for zones whose clocks never change.
    ///
    /// # Errors
    /// [`ScheduleError`], naming the schedule and the remedy.
    pub fn new(
        name: &str,
        expression: &str,
        zone: &str,
        shifts: Option<(Gap, Overlap)>,
    ) -> Result<Self, ScheduleError> {
        let unknown = || ScheduleError::Zone { name: name.into(), zone: zone.into() };
        let tz = Tz::from_str(zone).map_err(|_| unknown())?;
        let wrong =
            |why: String| ScheduleError::Expression { name: name.into(), expression: expression.into(), why };
        let times = cron::Schedule::from_str(&with_seconds(expression)).map_err(|e| wrong(e.to_string()))?;
        if shifts.is_none() && changes_clocks(tz) {
            return Err(ScheduleError::Shifts { name: name.into(), zone: zone.into() });
        }
        Ok(Self { name: name.into(), times, zone: tz, shifts })
    }

    /// The schedule's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The first occurrence after `after`; `None` when there is no other.
    #[must_use]
    pub fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let after = DateTime::<Utc>::from_timestamp_millis(i64::try_from(after.0).ok()?)?;
        let found = self.next_on_steady_clocks(after).or_else(|| self.next_around_a_change(after))?;
        u64::try_from(found.timestamp_millis()).ok().map(Timestamp)
    }

    /// The next occurrence, where clocks change neither around `after` nor around it.
    fn next_on_steady_clocks(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let local = after.with_timezone(&self.zone).naive_local();
        let wall = self.times.after(&local.and_utc()).next()?.naive_utc();
        let [found] = self.instants(wall)[..] else { return None };
        let steady = |at: DateTime<Utc>| {
            let offset = |at: DateTime<Utc>| self.zone.offset_from_utc_datetime(&at.naive_utc()).fix();
            offset(at - MARGIN) == offset(at) && offset(at) == offset(at + MARGIN)
        };
        (steady(after) && steady(found)).then_some(found)
    }

    /// The next occurrence, whatever clocks do: wall-clock order is not the order of instants around a change, so this looks a
    /// little back and ahead.
    fn next_around_a_change(&self, after: DateTime<Utc>) -> Option<DateTime<Utc>> {
        let from = after.with_timezone(&self.zone).naive_local() - MARGIN;
        let mut best: Option<DateTime<Utc>> = None;
        let mut until: Option<NaiveDateTime> = None;
        for wall in self.times.after(&from.and_utc()).map(|at| at.naive_utc()) {
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

    /// The instants that a wall-clock time means.
    fn instants(&self, wall: NaiveDateTime) -> Vec<DateTime<Utc>> {
        let (gap, overlap) = self.shifts.unwrap_or((Gap::Shift, Overlap::First));
        match self.zone.from_local_datetime(&wall) {
            LocalResult::Single(at) => vec![at.to_utc()],
            LocalResult::Ambiguous(first, last) => match overlap {
                Overlap::First => vec![first.to_utc()],
                Overlap::Last => vec![last.to_utc()],
                Overlap::Both => vec![first.to_utc(), last.to_utc()],
            },
            LocalResult::None => match gap {
                Gap::Skip => vec![],
                Gap::Shift => {
                    let minutes = (1..=180).map(|n| wall + Span::minutes(n));
                    let first = minutes
                        .map(|wall| self.zone.from_local_datetime(&wall))
                        .find_map(LocalResult::earliest);
                    first.map(|at| at.to_utc()).into_iter().collect()
                }
            },
        }
    }
}

/// Seconds in front if there are none, and weekdays by name: the `cron` crate counts Sunday as 1, everyone else as 0 or 7.
fn with_seconds(expression: &str) -> String {
    let mut fields: Vec<String> = expression.split_whitespace().map(str::to_owned).collect();
    if fields.len() == 5 {
        fields.insert(0, "0".into());
    }
    if let Some(weekday) = fields.get_mut(5) {
        let named: Vec<_> = weekday.split(',').map(named_weekdays).collect();
        *weekday = named.join(",");
    }
    fields.join(" ")
}

fn named_weekdays(part: &str) -> String {
    let (days, step) = part.split_once('/').map_or((part, None), |(days, step)| (days, Some(step)));
    let named: Vec<_> = days.split('-').map(|day| weekday(day).unwrap_or(day)).collect();
    step.map_or_else(|| named.join("-"), |step| format!("{}/{step}", named.join("-")))
}

fn weekday(number: &str) -> Option<&'static str> {
    ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT", "SUN"].get(number.parse::<usize>().ok()?).copied()
}

fn changes_clocks(zone: Tz) -> bool {
    use chrono::Offset as _;
    let offset = |month| {
        let noon = Utc.with_ymd_and_hms(2026, month, 15, 12, 0, 0).single();
        noon.map(|at| at.with_timezone(&zone).offset().fix().local_minus_utc())
    };
    (2..=12).any(|month| offset(month) != offset(1))
}

/// Where a schedule stands.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Cursor {
    /// Everything up to here has been fired, or recorded as missed.
    done: Timestamp,
}

/// Occurrences of a backlog that are recorded one by one; older ones are passed over.
const MOST_MISSED: usize = 100;

impl<P: Send + Sync + 'static> Engine<P> {
    /// Claims the occurrence of `schedule` that is due, if one is: the latest; earlier ones are recorded as missed. Of
    /// several engines exactly one is answered `Some`.
    ///
    /// # Errors
    /// The store's.
    pub async fn claim_occurrence(&self, schedule: &Schedule) -> Result<Option<Occurrence>, Error> {
        let now = self.inner.clock.now();
        let key = Key::new(SCHEDULES, schedule.name());
        let found = self.inner.store.document(&key).await?;
        let corrupt =
            |e: serde_json::Error| store::Error::Corrupt { what: key.to_string(), why: e.to_string() };
        let cursor =
            found.as_ref().map(|d| serde_json::from_slice::<Cursor>(&d.body)).transpose().map_err(corrupt)?;
        let put = |key: Key, body: serde_json::Result<Vec<u8>>| Put { key, body: body.ok() };
        let mut documents = vec![put(key.clone(), serde_json::to_vec(&Cursor { done: now }))];
        let mut due = VecDeque::new();
        if let Some(cursor) = cursor {
            let mut next = schedule.next_after(cursor.done);
            while let Some(nominal) = next.filter(|at| *at <= now) {
                due.push_back(nominal);
                if due.len() > MOST_MISSED {
                    due.pop_front();
                }
                next = schedule.next_after(nominal);
            }
            if due.is_empty() {
                return Ok(None);
            }
        }
        let occurrence = |nominal: Timestamp, fate: &str| Occurrence {
            schedule: schedule.name.clone(),
            nominal,
            at: now,
            fate: fate.to_owned(),
        };
        let fired = due.pop_back().map(|nominal| occurrence(nominal, "fired"));
        let missed = due.into_iter().map(|nominal| occurrence(nominal, "missed"));
        documents.extend(missed.chain(fired.clone()).map(|occurrence| {
            let id = format!("{}/{:020}", occurrence.schedule, occurrence.nominal.0);
            put(Key::new(OCCURRENCES, id), serde_json::to_vec(&occurrence))
        }));
        let reads = vec![Read { key, version: found.map(|document| document.version) }];
        match self.inner.store.commit(Commit { reads, documents, ..Commit::default() }).await {
            Ok(_) => Ok(fired),
            Err(store::Error::Conflict { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        Timestamp(u64::try_from(text.parse::<DateTime<Utc>>().unwrap().timestamp_millis()).unwrap())
    }

    fn new_york(expression: &str, gap: Gap, overlap: Overlap) -> Schedule {
        Schedule::new("nightly", expression, "America/New_York", Some((gap, overlap))).unwrap()
    }

    #[test]
    fn a_nightly_run_in_a_skipped_hour_is_shifted_or_left_out_as_told() {
        let shift = new_york("30 2 * * *", Gap::Shift, Overlap::First);
        assert_eq!(shift.next_after(at("2026-03-08T05:00:00Z")), Some(at("2026-03-08T07:00:00Z")));
        let skip = new_york("30 2 * * *", Gap::Skip, Overlap::First);
        assert_eq!(skip.next_after(at("2026-03-08T05:00:00Z")), Some(at("2026-03-09T06:30:00Z")));
    }

    #[test]
    fn the_short_way_over_steady_clocks_finds_what_the_long_way_does() {
        let hour = 3_600_000;
        for expression in ["* * * * *", "30 2 * * *", "0 */3 * * 1-5", "15 1 8 3 *"] {
            for (gap, overlap) in [(Gap::Shift, Overlap::First), (Gap::Skip, Overlap::Both)] {
                let schedule = new_york(expression, gap, overlap);
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
    fn a_nightly_run_in_a_repeated_hour_happens_once_or_twice_as_told() {
        let midnight = at("2026-11-01T04:00:00Z");
        let first = new_york("30 1 * * *", Gap::Shift, Overlap::First);
        assert_eq!(first.next_after(midnight), Some(at("2026-11-01T05:30:00Z")));
        assert_eq!(first.next_after(at("2026-11-01T05:30:00Z")), Some(at("2026-11-02T06:30:00Z")));
        let both = new_york("30 1 * * *", Gap::Shift, Overlap::Both);
        assert_eq!(both.next_after(at("2026-11-01T05:30:00Z")), Some(at("2026-11-01T06:30:00Z")));
    }

    #[test]
    fn sunday_is_0_and_7_and_monday_is_1() {
        for (day, expected) in
            [("0", "2026-11-22"), ("7", "2026-11-22"), ("1", "2026-11-23"), ("1-5", "2026-11-23")]
        {
            let schedule = Schedule::new("weekly", &format!("0 12 * * {day}"), "UTC", None).unwrap();
            let expected = at(&format!("{expected}T12:00:00Z"));
            assert_eq!(schedule.next_after(at("2026-11-21T13:00:00Z")), Some(expected), "{day}");
        }
    }

    #[test]
    fn a_zone_whose_clocks_change_needs_to_be_told_what_then() {
        let missing = Schedule::new("nightly", "30 2 * * *", "Europe/Berlin", None).unwrap_err().to_string();
        assert_eq!(
            missing,
            "schedule nightly: clocks change in Europe/Berlin; say what to do with hours that are skipped or repeated"
        );
    }
}
