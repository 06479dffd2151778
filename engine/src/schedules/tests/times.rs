//! Which instants an expression names, where clocks change: compared with a walk over every minute.

use super::{Dice, at};
use crate::{Fold, Gap, Times};
use chrono::{DateTime, LocalResult, NaiveDateTime, TimeZone as _, Timelike as _, Utc};
use chrono_tz::Tz;
use std::{collections::BTreeSet, str::FromStr as _};
use store::Timestamp;

/// Every instant that `walls` names between two moments, found by looking at each minute of clocks and of time.
fn walked(walls: &cron::Schedule, zone: Tz, gap: Gap, fold: Fold, (from, to): (u64, u64)) -> BTreeSet<u64> {
    let instant = |ms: u64| DateTime::<Utc>::from_timestamp_millis(i64::try_from(ms).unwrap()).unwrap();
    let millis = |at: DateTime<Tz>| u64::try_from(at.timestamp_millis()).unwrap();
    let named = |wall: NaiveDateTime| wall.second() == 0 && walls.includes(wall.and_utc());
    let mut found = BTreeSet::new();
    let mut wall = instant(from).with_timezone(&zone).naive_local() - chrono::Duration::hours(4);
    let end = instant(to).with_timezone(&zone).naive_local() + chrono::Duration::hours(4);
    // Clocks are read at every full minute that they could show, also those that they skip.
    while wall <= end {
        if named(wall) {
            match (zone.from_local_datetime(&wall), gap, fold) {
                (LocalResult::Single(one), ..) => drop(found.insert(millis(one))),
                (LocalResult::Ambiguous(first, _), _, Fold::First) => drop(found.insert(millis(first))),
                (LocalResult::Ambiguous(_, last), _, Fold::Last) => drop(found.insert(millis(last))),
                (LocalResult::Ambiguous(first, last), _, Fold::Both) => {
                    found.extend([millis(first), millis(last)]);
                }
                (LocalResult::None, Gap::Skip, _) => {}
                (LocalResult::None, Gap::Shift, _) => {
                    let mut later = wall;
                    while zone.from_local_datetime(&later).earliest().is_none() {
                        later += chrono::Duration::minutes(1);
                    }
                    found.insert(millis(zone.from_local_datetime(&later).earliest().unwrap()));
                }
            }
        }
        wall += chrono::Duration::minutes(1);
    }
    found.into_iter().filter(|ms| from < *ms && *ms <= to).collect()
}

#[test]
fn around_every_change_of_clocks_the_moments_are_those_that_a_walk_over_the_minutes_finds() {
    // Half an hour is skipped and repeated on Lord Howe; Tehran and Kolkata stand between the hours.
    let changes = [
        ("America/New_York", "2026-03-07T20:00:00Z"),
        ("America/New_York", "2026-10-31T20:00:00Z"),
        ("Europe/Berlin", "2026-03-28T14:00:00Z"),
        ("Europe/Berlin", "2026-10-24T14:00:00Z"),
        ("Australia/Lord_Howe", "2026-04-04T04:00:00Z"),
        ("Australia/Lord_Howe", "2026-10-03T04:00:00Z"),
        ("Asia/Kolkata", "2026-05-01T00:00:00Z"),
    ];
    let crons = ["30 2 * * *", "*/20 * * * *", "15 1,2,3 * * *", "0 * * * *", "45 1 * * 0", "5 0 * * *"];
    for (zone, from) in changes {
        let (tz, from) = (Tz::from_str(zone).unwrap(), at(from).0);
        let to = from + 30 * 3_600_000;
        for cron in crons {
            for gap in [Gap::Skip, Gap::Shift] {
                for fold in [Fold::First, Fold::Last, Fold::Both] {
                    let times = Times::new("t", cron, zone, Some((gap, fold))).unwrap();
                    let first = times.next_after(Timestamp(from));
                    let all = std::iter::successors(first, |last| times.next_after(*last));
                    let found: BTreeSet<u64> = all.map(|at| at.0).take_while(|ms| *ms <= to).collect();
                    // The other parser counts Sunday as 1.
                    let walls = format!("0 {}", cron.replace("* * 0", "* * SUN"));
                    let walls = cron::Schedule::from_str(&walls).unwrap();
                    let walked = walked(&walls, tz, gap, fold, (from, to));
                    assert_eq!(found, walked, "{cron} in {zone}, {gap:?} {fold:?}");
                }
            }
        }
    }
}

#[test]
fn seconds_may_be_said_and_a_skipped_time_is_shifted_to_the_first_moment_after() {
    let times = Times::new("t", "15 30 2 * * *", "Europe/Berlin", Some((Gap::Shift, Fold::Last))).unwrap();
    assert_eq!(times.next_after(at("2026-03-28T12:00:00Z")), Some(at("2026-03-29T01:00:00Z")));
    assert_eq!(times.next_after(at("2026-10-24T12:00:00Z")), Some(at("2026-10-25T01:30:15Z")));
    assert_eq!(times.local(at("2026-10-25T01:30:15Z")), "2026-10-25T02:30:15+01:00");
}

#[test]
fn no_moment_is_named_twice_and_none_goes_back() {
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
