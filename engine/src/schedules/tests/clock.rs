//! A clock that is wrong and is corrected, while the server runs or between two starts.

use super::{
    Dice, at,
    fixture::{Bench, hourly, oclock},
    times::Reference,
    world::{World, nightly},
};
use crate::{
    Backfill, CatchUp, Clock as _, HOUR, MINUTE, Occurrence, OccurrenceFate as Fate, Origin, Overlap,
    Schedule, ScheduleStatus,
};
use chrono::{DateTime, Utc};
use serde_json::json;
use std::time::Duration;
use store::Timestamp;

/// Returns the first moment after `now` that the expression names, by checking each minute.
fn next_real(reference: &Reference, now: Timestamp) -> Timestamp {
    let mut minute = now.0 - now.0 % 60_000;
    loop {
        minute += 60_000;
        let wall = DateTime::<Utc>::from_timestamp_millis(i64::try_from(minute).unwrap()).unwrap();
        if reference.names_minute(wall.naive_utc()) {
            return Timestamp(minute);
        }
    }
}

async fn end(bench: &Bench, started: Vec<Occurrence>) {
    for one in started {
        bench.finish(one.execution.unwrap()).await;
    }
}

/// R1 of the public bugs of schedulers. Jumps of up to 400 days either way, with and without a restart.
#[tokio::test]
async fn after_any_jump_of_the_clock_a_schedule_fires_at_each_of_its_next_real_moments_once() {
    for (seed, cron) in [(1, "0 */6 * * *"), (2, "30 2 * * *"), (3, "0 12 13 * 5"), (4, "17 */5 1-20 * *")] {
        let (mut dice, reference) = (Dice(seed), Reference::of(cron));
        let mut bench =
            Bench::with(Schedule { cron: cron.into(), overlap: Overlap::Allow, ..hourly(json!({})) }).await;
        for jump in 0..10 {
            let now = bench.clock.now().0;
            let by = dice.below(400 * 86_400_000) + 4 * 3_600_000;
            let to = if dice.below(2) == 0 { now + by } else { now - by };
            bench.clock.set(Timestamp(to));
            if dice.below(2) == 0 {
                bench.engine = bench.beside();
            }
            let made_up = bench.look().await;
            assert!(made_up.len() <= 1, "{cron}, jump {jump}: only the latest is started: {made_up:?}");
            assert!(to > now || made_up.is_empty(), "{cron}, jump {jump}: nothing is due yet: {made_up:?}");
            end(&bench, made_up).await;
            for _ in 0..3 {
                let next = next_real(&reference, bench.clock.now());
                bench.clock.set(Timestamp(next.0 - 1));
                assert_eq!(bench.look().await, [], "{cron}, jump {jump}: early");
                bench.clock.set(next);
                let fired = bench.look().await;
                let moments: Vec<_> = fired.iter().map(|one| one.nominal.0 - one.nominal.0 % 1_000).collect();
                assert_eq!(moments, [next.0], "{cron}, jump {jump} from {now} to {to}");
                assert_eq!(bench.look().await, [], "{cron}, jump {jump}: twice");
                end(&bench, fired).await;
            }
        }
        let rows = bench.rows().await;
        let executions = rows.iter().filter_map(|row| row.execution).count();
        assert_eq!(executions, bench.executions().await.len(), "each is on record once");
    }
}

/// As in cronie: after an adjustment of less than three hours, a time of day that ran a short time ago does not run
/// again, but an interval does.
#[test]
fn an_adjustment_repeats_an_interval_and_no_time_of_day_and_loses_neither() {
    for (cron, again) in [("30 2 * * *", false), ("*/10 * * * *", true)] {
        let schedule = Schedule { cron: cron.into(), overlap: Overlap::Allow, ..nightly() };
        let mut world = World::of(schedule, at("2026-11-21T02:25:00Z"));
        world.now = at("2026-11-21T02:30:00Z");
        assert_eq!(world.look().len(), 1, "{cron}");
        world.now = at("2026-11-21T02:31:00Z");
        world.look();
        world.now = at("2026-11-21T01:51:00Z");
        assert_eq!(world.look(), [], "{cron}");
        let mut fired = Vec::new();
        while world.now < at("2026-11-22T02:45:00Z") {
            world.advance(MINUTE);
            world.end_runs("completed");
            fired.extend(world.look());
        }
        let count = if again { 25 * 6 - 1 } else { 1 };
        assert_eq!(fired.len(), count, "{cron}: {fired:?}");
        assert!(fired.contains(&at("2026-11-22T02:30:00Z")), "{cron}");
        assert_eq!(world.status.set_back, None, "{cron}: forgotten");
    }
}

/// Servers' clocks may be some seconds apart.
#[test]
fn a_clock_that_is_seconds_behind_starts_nothing_again() {
    let mut world = World::of(Schedule { cron: "* * * * *".into(), ..nightly() }, at("2026-11-21T02:25:30Z"));
    world.now = at("2026-11-21T02:26:00Z");
    assert_eq!(world.look().len(), 1);
    world.end_runs("completed");
    world.now = at("2026-11-21T02:25:20Z");
    assert_eq!(world.look(), []);
    world.now = at("2026-11-21T02:26:10Z");
    assert_eq!(world.look(), []);
    world.now = at("2026-11-21T02:27:00Z");
    assert_eq!(world.look(), [at("2026-11-21T02:27:00Z")]);
    assert_eq!(world.status.ahead_of(at("2026-11-21T02:26:00Z")), None);
}

/// Neither `catch_up: all` nor recorded future moments start an occurrence twice.
#[test]
fn a_clock_that_was_behind_and_is_set_forward_starts_nothing_twice() {
    let schedule = Schedule { catch_up: CatchUp::All, overlap: Overlap::Allow, ..nightly() };
    let mut world = World::of(schedule, at("2026-11-01T00:30:00Z"));
    for _ in 0..72 {
        world.advance(HOUR);
        assert_eq!(world.look().len(), 1);
        world.end_runs("completed");
    }
    let right = world.now;
    world.now = at("2026-11-01T12:30:00Z");
    assert_eq!(world.look(), []);
    world.now = right;

    assert_eq!(world.look(), [], "all of them ran");

    world.advance(2 * HOUR);
    assert_eq!(world.look().len(), 2, "only missed occurrences");
}

#[test]
fn a_waiting_occurrence_does_not_wait_for_a_time_that_the_clock_showed_by_mistake() {
    let schedule = Schedule { overlap: Overlap::BufferAll, jitter: Duration::from_secs(1_200), ..nightly() };
    let mut world = World::of(schedule, at("2027-11-21T00:30:00Z"));
    world.now = world.schedule.due(at("2027-11-21T01:00:00Z"));
    assert_eq!(world.look().len(), 1);
    world.now = at("2027-11-21T02:00:00Z");
    world.look();
    let asked = Occurrence {
        origin: Origin::Trigger,
        nominal: Timestamp(world.now.0 + 1),
        due: Some(world.now),
        ..world.status.waiting[0].clone()
    };
    world.status.waiting.push(asked.clone());
    let (from, to) = (at("2027-11-20T00:00:00Z"), world.now);
    world.status.backfills.push(Backfill { from, to, done: from, by: "ada".into(), at: to });
    world.end_runs("completed");
    world.now = at("2026-11-21T00:30:00Z");

    assert_eq!(world.look(), [asked.nominal], "an occurrence that a person requested starts at once");

    world.end_runs("completed");
    world.look();
    assert!(world.status.waiting.is_empty() && world.status.backfills.is_empty(), "{:?}", world.status);
    let dropped = &world.rows[&at("2027-11-21T02:00:00Z")];
    assert!(dropped.fate == Fate::Skipped && dropped.reason.contains("set back"), "{dropped:?}");
}

#[tokio::test]
async fn a_status_that_is_ahead_of_the_clock_reports_by_how_much_until_the_clock_has_caught_up() {
    let bench = Bench::with(hourly(json!({}))).await;
    bench.clock.set(oclock(9));
    bench.look().await;
    assert_eq!(bench.standing().await.ahead_of(oclock(9)), None);
    bench.clock.set(oclock(1).after(MINUTE));
    assert_eq!(bench.standing().await.ahead_of(bench.clock.now()), Some(8 * HOUR - MINUTE), "before a look");

    bench.look().await;

    let standing = bench.standing().await;
    assert_eq!(standing.done, oclock(1).after(MINUTE));
    assert_eq!(standing.ahead_of(oclock(1).after(MINUTE)), Some(8 * HOUR - MINUTE), "and behind it");
    assert_eq!(standing.fires_after(oclock(1).after(MINUTE)), oclock(1).after(MINUTE));
    assert_eq!(standing.ahead_of(oclock(9)), None);
}

#[test]
fn the_status_of_a_schedule_from_an_earlier_version_can_be_read() {
    let standing: ScheduleStatus = serde_json::from_value(json!({ "name": "reclaim", "done": 7 })).unwrap();
    assert!(standing.set_back.is_none() && standing.failing.is_none());
    let told = serde_json::to_value(&standing).unwrap();
    assert!(told.get("set_back").is_none() && told.get("failing").is_none(), "an earlier version reads it");
}

/// R10 of the public bugs of schedulers: a schedule that fails each time must not look healthy.
#[test]
fn the_last_failure_is_shown_until_an_occurrence_succeeds() {
    use crate::schedules::decide::StartOutcome;
    let mut world = World::of(nightly(), at("2026-11-21T00:30:00Z"));
    let moment = at("2026-11-21T01:00:00Z");
    world.now = moment;
    world.tried.insert(moment, StartOutcome::Refused("user walt is unknown".into()));
    world.look();
    let failing = world.status.failing.clone().unwrap();
    assert!(failing.nominal == moment && failing.reason.contains("walt"), "{failing:?}");

    world.advance(HOUR);
    assert_eq!(world.look().len(), 1);
    assert_eq!(world.status.failing, None, "it could be started");
    world.end_runs("rolled_back");
    world.advance(HOUR);
    world.look();
    let failing = world.status.failing.clone().unwrap();
    assert!(failing.execution.is_some() && failing.reason.contains("rolled_back"), "{failing:?}");
    world.end_runs("completed");
    world.look();
    assert_eq!(world.status.failing, None);
}
