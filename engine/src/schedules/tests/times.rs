//! The instants of expressions, compared with a search over every minute.

use super::{Dice, at};
use crate::{Fold, Gap, Times};
use chrono::{DateTime, Datelike as _, LocalResult, NaiveDateTime, TimeZone as _, Timelike as _, Utc};
use chrono_tz::Tz;
use std::{collections::BTreeSet, str::FromStr as _};
use store::Timestamp;

const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The reference: the values of each of the five fields, parsed independently.
pub(super) struct Reference {
    fields: Vec<String>,
    /// By field and value.
    named: Vec<Vec<bool>>,
}

impl Reference {
    pub(super) fn of(cron: &str) -> Self {
        let fields: Vec<String> = cron.split_whitespace().map(str::to_lowercase).collect();
        assert_eq!(fields.len(), 5, "{cron}");
        let spans = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)];
        let named = fields.iter().zip(spans).enumerate().map(|(place, (field, (least, most)))| {
            (0..=most).map(|value| value >= least && names(field, value, least, most, place == 4)).collect()
        });
        Self { named: named.collect(), fields: fields.clone() }
    }

    fn names_day(&self, wall: NaiveDateTime) -> bool {
        let has = |field: usize, value: u32| self.named[field][usize::try_from(value).unwrap()];
        let (day, weekday) = (has(2, wall.day()), has(4, wall.weekday().num_days_from_sunday()));
        let starred = self.fields[2].starts_with('*') || self.fields[4].starts_with('*');
        has(3, wall.month()) && if starred { day && weekday } else { day || weekday }
    }

    pub(super) fn names_minute(&self, wall: NaiveDateTime) -> bool {
        let has = |field: usize, value: u32| self.named[field][usize::try_from(value).unwrap()];
        has(0, wall.minute()) && has(1, wall.hour()) && self.names_day(wall)
    }

    /// True if the field begins with `*`, or names all values.
    fn is_open(&self, field: usize) -> bool {
        self.fields[field].starts_with('*') || self.named[field].iter().all(|named| *named)
    }

    fn is_every_hour(&self) -> bool {
        self.named[1].iter().all(|named| *named)
    }
}

/// Returns true if a field names a value: counts up from each start, with wrap-around, to the end of the range.
fn names(field: &str, value: u32, least: u32, most: u32, weekday: bool) -> bool {
    let number = |text: &str| {
        let name = WEEKDAYS.iter().position(|name| weekday && *name == text);
        name.map_or_else(|| text.parse::<u32>().unwrap(), |place| u32::try_from(place).unwrap())
    };
    field.split(',').any(|part| {
        let (range, step) = part.split_once('/').map_or((part, 1), |(range, step)| (range, number(step)));
        let (from, to) = match range.split_once('-') {
            Some((from, to)) => (number(from), number(to)),
            None if range == "*" => (least, most),
            None if part.contains('/') => (number(range), most),
            None => (number(range), number(range)),
        };
        let from = if weekday && from == 7 && to != 7 { 0 } else { from };
        let (mut at, mut count) = (from, 0);
        loop {
            let shown = if weekday && at == 7 { 0 } else { at };
            if count % step == 0 && shown == value {
                return true;
            }
            if at == to {
                return false;
            }
            // 7 ends a range of weekdays as a day of its own.
            let last = if weekday && to == 7 { 7 } else { most };
            at = if at >= last { least + at - last } else { at + 1 };
            count += 1;
        }
    })
}

/// Returns every instant of the expression between two moments, by checking each minute of time and each minute that
/// a clock change skips.
fn walked(reference: &Reference, zone: Tz, gap: Gap, fold: Fold, (from, to): (u64, u64)) -> BTreeSet<u64> {
    let instant = |ms: u64| DateTime::<Utc>::from_timestamp_millis(i64::try_from(ms).unwrap()).unwrap();
    let millis = |at: DateTime<Tz>| u64::try_from(at.timestamp_millis()).unwrap();
    let interval = reference.is_open(0) || reference.is_open(1);
    let mut found = BTreeSet::new();
    let mut at = from - from % 60_000 - 4 * 3_600_000;
    let mut before = instant(at).with_timezone(&zone).naive_local();
    while at <= to {
        let wall = instant(at).with_timezone(&zone).naive_local();
        let counts = match (zone.from_local_datetime(&wall), fold) {
            _ if interval => true,
            (LocalResult::Ambiguous(first, _), Fold::First) => millis(first) == at,
            (LocalResult::Ambiguous(_, last), Fold::Last) => millis(last) == at,
            _ => true,
        };
        if counts && reference.names_minute(wall) {
            found.insert(at);
        }
        // The minutes between two clock readings were skipped.
        let mut skipped = before + chrono::Duration::minutes(1);
        while skipped < wall {
            if gap == Gap::Shift && !reference.is_every_hour() && reference.names_minute(skipped) {
                found.insert(at);
            }
            skipped += chrono::Duration::minutes(1);
        }
        before = wall;
        at += 60_000;
    }
    found.into_iter().filter(|ms| from < *ms && *ms <= to).collect()
}

fn found(times: &Times, (from, to): (u64, u64)) -> BTreeSet<u64> {
    let first = times.next_after(Timestamp(from));
    let all = std::iter::successors(first, |last| times.next_after(*last));
    all.map(|at| at.0).take_while(|ms| *ms <= to).collect()
}

/// Returns a random field of any form.
fn any_field(dice: &mut Dice, least: u64, most: u64, weekday: bool) -> String {
    let highest = if weekday { 7 } else { most };
    let value = |dice: &mut Dice| {
        let value = least + dice.below(highest - least + 1);
        let name = usize::try_from(value).ok().and_then(|place| WEEKDAYS.get(place));
        if weekday
            && dice.below(3) == 0
            && let Some(name) = name
        {
            return name.to_uppercase();
        }
        value.to_string()
    };
    let step = |dice: &mut Dice| 1 + dice.below(most - least);
    match dice.below(8) {
        0..=2 => "*".into(),
        3 => format!("*/{}", step(dice)),
        4 => format!("{},{}", value(dice), value(dice)),
        5 => format!("{}-{}", value(dice), value(dice)),
        6 => format!("{}-{}/{}", value(dice), value(dice), step(dice)),
        _ => value(dice),
    }
}

fn any_cron(dice: &mut Dice) -> String {
    let spans = [(0, 59, false), (0, 23, false), (1, 31, false), (1, 12, false), (0, 6, true)];
    // Most months, or the expression would have no moments.
    let field = |(least, most, weekday): (u64, u64, bool)| match most {
        12 if dice.below(4) > 0 => "*".to_owned(),
        _ => any_field(dice, least, most, weekday),
    };
    spans.map(field).join(" ")
}

/// Clock changes are half an hour on Lord Howe, two hours in Troll, and at midnight in Santiago; the offset of
/// Kolkata is half an hour.
const CHANGES: [(&str, &str); 11] = [
    ("America/New_York", "2026-03-07T20:00:00Z"),
    ("America/New_York", "2026-10-31T20:00:00Z"),
    ("Europe/Berlin", "2026-03-28T14:00:00Z"),
    ("Europe/Berlin", "2026-10-24T14:00:00Z"),
    ("Australia/Lord_Howe", "2026-04-04T04:00:00Z"),
    ("Australia/Lord_Howe", "2026-10-03T04:00:00Z"),
    ("Antarctica/Troll", "2026-03-28T14:00:00Z"),
    ("Antarctica/Troll", "2026-10-24T14:00:00Z"),
    ("America/Santiago", "2026-04-04T12:00:00Z"),
    ("America/Santiago", "2026-09-05T12:00:00Z"),
    ("Asia/Kolkata", "2026-05-01T00:00:00Z"),
];

#[test]
fn around_every_clock_change_the_moments_match_a_search_over_the_minutes() {
    let usual = ["30 2 * * *", "*/20 * * * *", "15 1,2,3 * * *", "0 * * * *", "45 1 * * 0", "5 0 * * *"];
    let mut dice = Dice(17);
    for (zone, from) in CHANGES {
        let (tz, from) = (Tz::from_str(zone).unwrap(), at(from).0);
        let span = (from, from + 30 * 3_600_000);
        let any: Vec<String> = (0..3).map(|_| any_cron(&mut dice)).collect();
        for cron in usual.into_iter().chain(any.iter().map(String::as_str)) {
            let reference = Reference::of(cron);
            for gap in [Gap::Skip, Gap::Shift] {
                for fold in [Fold::First, Fold::Last, Fold::Both] {
                    let times = Times::new("t", cron, zone, Some((gap, fold))).unwrap();
                    let walked = walked(&reference, tz, gap, fold, span);
                    assert_eq!(found(&times, span), walked, "{cron} in {zone}, {gap:?} {fold:?}");
                }
            }
        }
    }
}

#[test]
fn expressions_of_every_form_match_a_search_over_the_minutes() {
    let mut dice = Dice(6);
    for _ in 0..60 {
        let cron = any_cron(&mut dice);
        let from = at("2026-01-01T00:00:00Z").0 + dice.below(1_000 * 86_400) * 1_000;
        let span = (from, from + 3 * 86_400_000);
        let times = Times::new("t", &cron, "UTC", None).unwrap();
        let walked = walked(&Reference::of(&cron), Tz::UTC, Gap::Shift, Fold::First, span);
        assert_eq!(found(&times, span), walked, "{cron} from {from}");
    }
}

#[test]
fn expressions_of_every_form_match_a_search_over_the_days() {
    let mut dice = Dice(7);
    for _ in 0..300 {
        let cron = any_cron(&mut dice);
        let days: Vec<&str> = cron.split_whitespace().skip(2).collect();
        let cron = format!("0 0 {}", days.join(" "));
        let (times, reference) = (Times::new("t", &cron, "UTC", None).unwrap(), Reference::of(&cron));
        let from = at("2026-12-31T12:00:00Z").0;
        let span = (from, from + 800 * 86_400_000);
        let midnights = (0..800).map(|day| from + 43_200_000 + day * 86_400_000);
        let wall = |ms: u64| DateTime::<Utc>::from_timestamp_millis(i64::try_from(ms).unwrap()).unwrap();
        let walked: BTreeSet<u64> =
            midnights.filter(|ms| reference.names_day(wall(*ms).naive_utc())).collect();
        assert_eq!(found(&times, span), walked, "{cron}");
    }
}

/// See `man 5 crontab`.
#[test]
fn a_day_of_the_month_and_a_weekday_match_either_and_a_star_restricts_nothing() {
    let next = |cron: &str, count: usize| {
        let times = Times::new("t", cron, "UTC", None).unwrap();
        let first = times.next_after(at("2027-08-01T00:00:00Z"));
        let all = std::iter::successors(first, |last| times.next_after(*last)).take(count);
        all.map(|at| times.format_local(at).get(..10).unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(next("0 3 13 * 5", 4), ["2027-08-06", "2027-08-13", "2027-08-20", "2027-08-27"]);
    assert_eq!(next("0 3 10 * 5", 3), ["2027-08-06", "2027-08-10", "2027-08-13"]);
    assert_eq!(next("0 3 13 * *", 2), ["2027-08-13", "2027-09-13"]);
    assert_eq!(next("0 3 * * FRI", 2), ["2027-08-06", "2027-08-13"]);
    assert_eq!(next("0 3 */2 * 5", 2), ["2027-08-13", "2027-08-27"], "`*/2` does not restrict: both hold");
    assert_eq!(next("0 3 ? * 5", 2), ["2027-08-06", "2027-08-13"]);
    assert_eq!(next("0 3 * * 5-7", 3), ["2027-08-01", "2027-08-06", "2027-08-07"]);
    assert_eq!(next("0 3 * * FRI-MON", 4), ["2027-08-01", "2027-08-02", "2027-08-06", "2027-08-07"]);
    assert_eq!(next("0 3 * * sat-sun", 2), ["2027-08-01", "2027-08-07"]);
    assert_eq!(next("0 3 * * 1-7", 3), ["2027-08-01", "2027-08-02", "2027-08-03"]);
    assert_eq!(next("0 3 * * 2/2", 3), ["2027-08-03", "2027-08-05", "2027-08-07"]);
    assert_eq!(next("0 22-2 1 * *", 6).last().unwrap(), "2027-09-01");
}

/// R5 of the public bugs of schedulers: the reclaim sweep was skipped for an hour in autumn.
#[test]
fn an_interval_keeps_its_distance_in_real_time_over_every_clock_change() {
    for (zone, from) in CHANGES {
        let span = (at(from).0, at(from).0 + 30 * 3_600_000);
        for (cron, minutes) in [("* * * * *", 1), ("*/20 * * * *", 20), ("7-59/30 * * * *", 30)] {
            for (gap, fold) in [(Gap::Shift, Fold::First), (Gap::Skip, Fold::Last)] {
                let times = Times::new("t", cron, zone, Some((gap, fold))).unwrap();
                let found: Vec<u64> = found(&times, span).into_iter().collect();
                // Half an hour on Lord Howe moves the minutes themselves.
                let most = if zone == "Australia/Lord_Howe" { 30 + minutes } else { minutes };
                for two in found.windows(2) {
                    assert!(two[1] - two[0] <= most * 60_000, "{cron} in {zone}: silent from {}", two[0]);
                }
                assert!(
                    found[0] - span.0 <= most * 60_000 && span.1 - found[found.len() - 1] < most * 60_000
                );
            }
        }
    }
}

#[test]
fn an_expression_may_have_seconds_and_a_skipped_time_moves_to_the_first_moment_after() {
    let times = Times::new("t", "15 30 2 * * *", "Europe/Berlin", Some((Gap::Shift, Fold::Last))).unwrap();
    assert_eq!(times.next_after(at("2026-03-28T12:00:00Z")), Some(at("2026-03-29T01:00:00Z")));
    assert_eq!(times.next_after(at("2026-10-24T12:00:00Z")), Some(at("2026-10-25T01:30:15Z")));
    assert_eq!(times.format_local(at("2026-10-25T01:30:15Z")), "2026-10-25T02:30:15+01:00");
}

#[test]
fn moments_are_strictly_increasing() {
    let mut dice = Dice(7);
    let zones = ["UTC", "America/New_York", "Australia/Lord_Howe", "Europe/Berlin"];
    for _ in 0..300 {
        let shifts = (dice.one(&[Gap::Skip, Gap::Shift]), dice.one(&[Fold::First, Fold::Last, Fold::Both]));
        let cron = dice.one(&["*/10 * * * * *", "*/7 * * * *", "30 */2 * * *", "59 59 1 * * *"]);
        let times = Times::new("t", cron, dice.one(&zones), Some(shifts)).unwrap();
        let mut last = Timestamp(at("2026-01-01T00:00:00Z").0 + dice.below(365 * 86_400_000));
        for _ in 0..40 {
            let next = times.next_after(last).unwrap();
            assert!(next > last, "{cron}");
            last = next;
        }
    }
}
