//! Decisions with random schedules, clocks, runs and orders. Each step is checked.

use super::{
    Dice, at,
    world::{World, nightly},
};
use crate::{
    Backfill, CatchUp, Exclusion, Fold, Gap, Occurrence, OccurrenceFate as Fate, Origin, Overlap, Paused,
    Schedule, schedules::occurrence_decision::ON_TIME,
};
use std::{collections::BTreeSet, time::Duration};
use store::Timestamp;

/// Returns a schedule with random policies.
fn any(dice: &mut Dice) -> Schedule {
    let overlap = dice.one(&[
        Overlap::Skip,
        Overlap::BufferOne,
        Overlap::BufferAll,
        Overlap::CancelOther,
        Overlap::TerminateOther,
        Overlap::Allow,
    ]);
    let catch_up = dice.one(&[CatchUp::None, CatchUp::Latest, CatchUp::All]);
    let hours = [None, Some(Duration::from_secs(1_800)), Some(Duration::from_secs(4 * 3_600))];
    let day = |n: u64| at("2026-03-28T00:00:00Z").after(Duration::from_secs(n * 86_400));
    let zone = dice.one(&["UTC", "America/New_York", "Europe/Berlin", "Australia/Lord_Howe"]);
    let mut schedule = Schedule {
        zone: zone.into(),
        cron: dice.one(&["0 * * * *", "*/15 * * * *", "30 2 * * *", "0 */6 * * *"]).into(),
        skipped_hour: Some(dice.one(&[Gap::Skip, Gap::Shift])),
        repeated_hour: Some(dice.one(&[Fold::First, Fold::Last, Fold::Both])),
        overlap,
        buffer: u32::try_from(1 + dice.below(4)).unwrap(),
        catch_up,
        window: if catch_up == CatchUp::None { None } else { dice.one(&hours) },
        jitter: Duration::from_secs(dice.one(&[0, 0, 600])),
        pause_on_failure: dice.below(4) == 0,
        ..nightly()
    };
    if dice.below(3) == 0 {
        let from = day(dice.below(4));
        let from = schedule.times().unwrap().day(from).unwrap();
        schedule.exclude = vec![Exclusion { from, to: None, why: "freeze".into() }];
    }
    schedule
}

/// S51, S53, S55. Each moment of a schedule becomes exactly one row.
#[test]
fn every_moment_is_exactly_one_row_and_no_policy_is_broken() {
    let mut dice = Dice(51);
    for case in 0..400 {
        let mut world = World::of(any(&mut dice), at("2026-03-28T12:00:00Z"));
        for _ in 0..25 {
            match dice.below(10) {
                0..=4 => world.advance(Duration::from_secs(60 + dice.below(5_400))),
                5 => world.advance(Duration::from_secs(dice.below(20) * 3_600)),
                6 => world.end_runs(dice.one(&["completed", "rolled_back", "cancelled", "terminated"])),
                7 if world.status.paused.is_none() => {
                    let paused = Paused { by: "ada".into(), reason: "stop".into(), at: world.now };
                    world.status.paused = Some(paused);
                }
                7 => world.status.paused = None,
                8 => {
                    let from = Timestamp(world.now.0 - dice.below(9) * 3_600_000);
                    let done = Timestamp(from.0 - 1);
                    let now = world.now;
                    world.status.backfills.push(Backfill { from, to: now, done, by: "ada".into(), at: now });
                }
                _ => {}
            }
            world.look();
            check(&world, case);
        }
        finish(&mut world);
    }
}

fn check(world: &World, case: u32) {
    let by_clock = |row: &&Occurrence| row.nominal > world.begun;
    let rows: BTreeSet<Timestamp> = world.rows.values().filter(by_clock).map(|row| row.nominal).collect();
    assert_eq!(rows, world.moments(), "case {case}: {:?}", world.schedule);
    let schedule = &world.schedule;
    assert!(world.status.waiting.len() <= 100);
    for row in world.rows.values().filter(|row| row.fate == Fate::Fired) {
        assert!(schedule.excluded(&world.times, row.nominal).is_none(), "case {case}: {row:?}");
        assert!(row.at >= row.due(), "case {case}: early: {row:?}");
        if row.origin == Origin::Clock && !world.buffered.contains(&row.nominal) {
            let late = row.at.since(row.due());
            let most = match schedule.catch_up {
                CatchUp::None => ON_TIME,
                CatchUp::Latest | CatchUp::All => schedule.window.unwrap_or(Duration::MAX).max(ON_TIME),
            };
            assert!(late <= most, "case {case}: {late:?} late, of {most:?}: {row:?}");
        }
    }
}

/// When every run ends well, no occurrence waits forever.
fn finish(world: &mut World) {
    world.status.paused = None;
    for _ in 0..500 {
        world.end_runs("completed");
        world.look();
        if world.status.waiting.iter().all(|waits| waits.due() > world.now)
            && world.status.backfills.is_empty()
        {
            return;
        }
    }
    panic!("an occurrence waits forever: {:?}", world.status);
}

/// S50.
#[test]
fn after_six_hours_of_downtime_a_window_of_one_hour_starts_one_and_five_are_missed() {
    for catch_up in [CatchUp::Latest, CatchUp::All] {
        let hour = Duration::from_secs(3_600);
        let schedule = Schedule { catch_up, window: Some(hour), ..nightly() };
        let mut world = World::of(schedule, at("2026-11-21T00:30:00Z"));
        world.advance(6 * hour);

        assert_eq!(world.look(), [at("2026-11-21T06:00:00Z")], "{catch_up:?}");

        let mut expected = vec![Fate::Missed; 5];
        expected.push(Fate::Fired);
        assert_eq!(world.fates(), expected, "{catch_up:?}");
        assert_eq!(world.look(), []);
    }
}

/// S53. The span is longer than any buffer, and ends on a moment.
#[test]
fn a_backfill_starts_each_occurrence_of_its_span_once_ends_included_and_leaves_none_out() {
    let from = at("2026-11-01T00:00:00Z");
    let mut world = World::of(
        Schedule { buffer: 2, overlap: Overlap::BufferAll, ..nightly() },
        at("2026-11-20T12:30:00Z"),
    );
    // It fired once within the span, before the downtime.
    let to = at("2026-11-10T00:00:00Z");
    let fired = at("2026-11-05T07:00:00Z");
    let row = Occurrence {
        schedule: "nightly".into(),
        nominal: fired,
        at: fired,
        fate: Fate::Fired,
        due: None,
        origin: Origin::Clock,
        by: None,
        version: 1,
        reason: String::new(),
        execution: None,
        outcome: None,
    };
    world.rows.insert(fired, row);
    let done = Timestamp(from.0 - 1);
    // The same span twice, and a part of it: each occurrence still starts once.
    for from in [from, from, at("2026-11-04T00:00:00Z")] {
        let done = done.max(Timestamp(from.0 - 1));
        world.status.backfills.push(Backfill { from, to, done, by: "ada".into(), at: world.now });
    }
    let (mut started, mut looks) = (world.look(), 0);
    while !world.status.running.is_empty() {
        assert_eq!(world.status.running.len(), 1, "one after the other");
        world.end_runs("completed");
        started.extend(world.look());
        looks += 1;
        assert!(looks < 1_000);
    }
    let mut expected: Vec<Timestamp> =
        std::iter::successors(Some(from), |last| world.times.next_after(*last))
            .take_while(|at| *at <= to)
            .collect();
    expected.retain(|at| *at != fired);
    assert_eq!(expected.len(), 9 * 24);
    assert_eq!(started, expected);
    assert!(world.status.backfills.is_empty());
}

/// S55.
#[test]
fn a_failure_pauses_and_a_cancel_or_a_termination_does_not() {
    for (outcome, pauses) in [
        ("completed", false),
        ("cancelled", false),
        ("terminated", false),
        ("rolled_back", true),
        ("rejected", true),
        ("refused", true),
        ("expired", true),
    ] {
        let hour = Duration::from_secs(3_600);
        let mut world =
            World::of(Schedule { pause_on_failure: true, ..nightly() }, at("2026-11-21T00:30:00Z"));
        world.advance(hour);
        world.look();
        world.end_runs(outcome);
        world.advance(hour);

        let fired = world.look();

        assert_eq!(fired.is_empty(), pauses, "{outcome}");
        assert_eq!(world.status.paused.is_some(), pauses, "{outcome}");
        assert_eq!(world.fates()[1], if pauses { Fate::Paused } else { Fate::Fired });
        let first = world.rows.values().next().unwrap();
        assert_eq!(first.outcome.as_deref(), Some(outcome));
    }
}

#[test]
fn a_jitter_is_always_the_same_for_a_moment_bounded_and_never_early() {
    let jitter = Duration::from_secs(1_200);
    let schedule = Schedule { jitter, ..nightly() };
    let all = schedule.upcoming(at("2026-11-21T00:30:00Z"), 200).unwrap();
    assert!(all.iter().all(|one| one.due >= one.nominal && one.due.since(one.nominal) <= jitter));
    assert!(all.iter().all(|one| schedule.due(one.nominal) == one.due));
    let apart: BTreeSet<_> = all.iter().map(|one| one.due.since(one.nominal)).collect();
    assert!(apart.len() > 190, "spread, not in steps");
    let other = Schedule { name: "other".into(), ..schedule.clone() };
    assert_ne!(other.due(all[0].nominal), all[0].due, "two schedules do not move together");
    let far = Schedule { jitter: Duration::from_secs(3_600), ..schedule };
    assert!(far.validate().unwrap_err().to_string().contains("at most 3599s"));
}

#[test]
fn an_occurrence_waits_for_the_end_of_its_jitter() {
    let schedule = Schedule { jitter: Duration::from_secs(1_200), ..nightly() };
    let mut world = World::of(schedule, at("2026-11-21T00:30:00Z"));
    let nominal = at("2026-11-21T01:00:00Z");
    let due = world.schedule.due(nominal);
    world.now = nominal;
    assert!(world.look().is_empty() && due > nominal);
    assert_eq!(world.fates(), [Fate::Pending]);
    world.now = Timestamp(due.0 - 1);
    assert!(world.look().is_empty());
    world.now = due;
    assert_eq!(world.look(), [nominal]);
}

/// The days are those of the schedule's zone, not of UTC.
#[test]
fn nothing_is_started_on_an_excluded_day_and_each_occurrence_of_it_says_why() {
    let exclude = vec![Exclusion {
        from: "2026-12-24".parse().unwrap(),
        to: Some("2026-12-26".parse().unwrap()),
        why: "year-end freeze".into(),
    }];
    let schedule = Schedule {
        cron: "30 23 * * *".into(),
        zone: "America/New_York".into(),
        skipped_hour: Some(Gap::Shift),
        repeated_hour: Some(Fold::First),
        exclude,
        ..nightly()
    };
    let mut world = World::of(schedule, at("2026-12-23T12:00:00Z"));
    for _ in 0..5 {
        world.advance(Duration::from_secs(86_400));
        world.look();
        world.end_runs("completed");
    }
    let told: Vec<_> = world.rows.values().map(|row| (row.fate, row.reason.as_str())).collect();
    let frozen = (Fate::Excluded, "year-end freeze");
    assert_eq!(told, [(Fate::Fired, ""), frozen, frozen, frozen, (Fate::Fired, "")]);
    let next = world.schedule.upcoming(at("2026-12-24T12:00:00Z"), 1).unwrap();
    assert_eq!(world.times.format_local(next[0].nominal), "2026-12-27T23:30:00-05:00");
}

/// A later occurrence on an excluded day does not replace it.
#[test]
fn the_latest_before_an_excluded_day_starts_on_that_day() {
    let exclude = vec![Exclusion { from: "2026-11-22".parse().unwrap(), to: None, why: "freeze".into() }];
    let mut world = World::of(Schedule { exclude, ..nightly() }, at("2026-11-21T21:30:00Z"));
    world.now = at("2026-11-22T03:30:00Z");

    assert_eq!(world.look(), [at("2026-11-21T23:00:00Z")]);

    use crate::OccurrenceFate::{Excluded, Fired, Missed};
    assert_eq!(world.fates(), [Missed, Fired, Excluded, Excluded, Excluded, Excluded]);
}

/// An occurrence that waits for its turn starts after the pause; one in its jitter is skipped.
#[test]
fn a_pause_skips_occurrences_in_their_jitter_and_keeps_waiting_ones() {
    let schedule = Schedule { jitter: Duration::from_secs(1_200), overlap: Overlap::BufferOne, ..nightly() };
    let mut world = World::of(schedule, at("2026-11-21T00:30:00Z"));
    for now in ["2026-11-21T01:40:00Z", "2026-11-21T02:40:00Z", "2026-11-21T03:00:00Z"] {
        world.now = at(now);
        world.look();
    }
    assert_eq!(world.fates(), [Fate::Fired, Fate::Buffered, Fate::Pending]);
    world.status.paused = Some(Paused { by: "ada".into(), reason: String::new(), at: world.now });
    world.advance(Duration::from_secs(1_800));
    world.end_runs("completed");

    assert_eq!(world.look(), []);
    assert_eq!(world.fates(), [Fate::Fired, Fate::Buffered, Fate::Paused]);
    world.status.paused = None;

    assert_eq!(world.look(), [at("2026-11-21T02:00:00Z")]);
}

#[test]
fn an_invalid_definition_is_refused_with_the_field_and_the_remedy() {
    let day = |text: &str| text.parse().unwrap();
    let backwards = Exclusion { from: day("2026-12-24"), to: Some(day("2026-12-23")), why: String::new() };
    let one = Exclusion { from: day("2026-12-24"), to: None, why: String::new() };
    let wrong: [(&str, Schedule); 11] = [
        ("name: use 1 to 63", Schedule { name: "No Way".into(), ..nightly() }),
        ("is not a cron expression", Schedule { cron: "* * *".into(), ..nightly() }),
        ("is not a time zone", Schedule { zone: "Mars/Olympus".into(), ..nightly() }),
        ("clocks change in Europe/Berlin", Schedule { zone: "Europe/Berlin".into(), ..nightly() }),
        ("buffer: use 1 to 100", Schedule { buffer: 101, ..nightly() }),
        ("buffer: use 1 to 100", Schedule { buffer: 0, ..nightly() }),
        ("2026-12-24 ends before it begins", Schedule { exclude: vec![backwards], ..nightly() }),
        ("exclude: name at most 366", Schedule { exclude: vec![one; 367], ..nightly() }),
        (
            "window: it has no effect",
            Schedule { catch_up: CatchUp::None, window: Some(Duration::from_secs(1)), ..nightly() },
        ),
        ("jitter: an occurrence may not", Schedule { jitter: Duration::from_secs(7_200), ..nightly() }),
        (
            "cron: it has no future moment",
            Schedule { cron: "0 0 0 1 1 * 2020".into(), set_at: at("2026-01-01T00:00:00Z"), ..nightly() },
        ),
    ];
    for (said, schedule) in wrong {
        let error = schedule.validate().unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

/// Row 36 of the public bugs of schedulers: 60 days of minutes delayed the current minute by four minutes.
#[test]
fn a_long_catch_up_does_not_delay_the_current_moment_and_skips_none() {
    for catch_up in [CatchUp::None, CatchUp::Latest, CatchUp::All] {
        let schedule = Schedule { cron: "* * * * *".into(), overlap: Overlap::Allow, catch_up, ..nightly() };
        let mut world = World::of(schedule, at("2026-11-01T00:00:30Z"));
        world.now = at("2026-11-03T00:00:05Z");
        let decision = world.decide(true);
        assert_eq!(
            decision.start.map(|start| start.nominal),
            Some(at("2026-11-03T00:00:00Z")),
            "{catch_up:?}"
        );

        let mut fired = BTreeSet::new();
        for _ in 0..10_000 {
            world.end_runs("completed");
            let some = world.look();
            if some.is_empty() {
                break;
            }
            fired.extend(some);
        }

        let rows: BTreeSet<Timestamp> = world.rows.keys().copied().collect();
        assert_eq!(rows, world.moments(), "{catch_up:?}: each is on record");
        // Late occurrences, up to the limit of concurrent runs.
        let count = if catch_up == CatchUp::All { 100 } else { 1 };
        assert_eq!(fired.len(), count, "{catch_up:?}");
        assert_eq!(world.status.catching_up, None);
    }
}
