//! The overlap policies, one row for each.

use crate::schedules::tests::{
    at,
    world::{World, nightly},
};
use crate::{
    OccurrenceFate as Fate, Overlap, Schedule,
    schedules::decide::{EndRequest, StartOutcome},
};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// Three hours pass during a run that does not end; then it ends.
fn three_hours(overlap: Overlap) -> (World, Vec<Fate>) {
    let schedule = Schedule { overlap, buffer: 2, ..nightly() };
    let mut world = World::of(schedule, at("2026-11-21T00:30:00Z"));
    for _ in 0..5 {
        world.advance(HOUR);
        world.look();
    }
    let beside = world.fates();
    (world, beside)
}

/// S51.
#[test]
fn during_a_long_run_each_policy_follows_its_table() {
    use crate::OccurrenceFate::{Buffered, Fired, Merged, Skipped};
    let table = [
        (Overlap::Skip, [Fired, Skipped, Skipped, Skipped, Skipped], 0),
        (Overlap::BufferOne, [Fired, Buffered, Merged, Merged, Merged], 1),
        (Overlap::BufferAll, [Fired, Buffered, Buffered, Skipped, Skipped], 2),
        (Overlap::CancelOther, [Fired, Merged, Merged, Merged, Buffered], 1),
        (Overlap::TerminateOther, [Fired, Merged, Merged, Merged, Buffered], 1),
        (Overlap::Allow, [Fired, Fired, Fired, Fired, Fired], 0),
    ];
    for (overlap, beside, more) in table {
        let (mut world, fates) = three_hours(overlap);
        assert_eq!(fates, beside, "{overlap:?}");
        let mut started = 0;
        for _ in 0..4 {
            world.end_runs("completed");
            started += world.look().len();
        }
        assert_eq!(started, more, "{overlap:?}: the waiting occurrence starts, and no other");
        assert!(world.status.waiting.is_empty());
    }
}

/// S51.
#[test]
fn an_earlier_run_is_asked_to_end_once() {
    for (overlap, ask) in
        [(Overlap::CancelOther, EndRequest::Cancel), (Overlap::TerminateOther, EndRequest::Terminate)]
    {
        let (world, _) = three_hours(overlap);
        let first = world.rows.values().next().unwrap().execution.unwrap();
        assert_eq!(world.orders, [(first, ask)], "{overlap:?}");
    }
    for overlap in [Overlap::Skip, Overlap::BufferOne, Overlap::BufferAll, Overlap::Allow] {
        assert_eq!(three_hours(overlap).0.orders, [], "{overlap:?}");
    }
}

/// A subject that another execution holds blocks like an own run, but that execution is not ended.
#[test]
fn if_another_execution_holds_the_subject_the_same_table_applies() {
    let hindered = [
        (Overlap::Skip, Fate::Skipped),
        (Overlap::Allow, Fate::Skipped),
        (Overlap::BufferOne, Fate::Buffered),
        (Overlap::BufferAll, Fate::Buffered),
        (Overlap::CancelOther, Fate::Buffered),
        (Overlap::TerminateOther, Fate::Buffered),
    ];
    for (overlap, fate) in hindered {
        let mut world = World::of(Schedule { overlap, ..nightly() }, at("2026-11-21T00:30:00Z"));
        world.advance(HOUR);
        world.tried.insert(at("2026-11-21T01:00:00Z"), StartOutcome::Busy("held by another".into()));
        assert!(world.look().is_empty());
        let row = world.rows.values().next().unwrap();
        assert_eq!((row.fate, row.reason.as_str()), (fate, "held by another"), "{overlap:?}");
        assert_eq!(world.orders, []);
        world.tried.clear();
        assert_eq!(world.look().len(), usize::from(fate == Fate::Buffered), "{overlap:?}");
    }
}

#[test]
fn an_impossible_start_fails_and_a_start_that_is_impossible_here_waits() {
    let mut world = World::of(Schedule { pause_on_failure: true, ..nightly() }, at("2026-11-21T00:30:00Z"));
    let (one, two) = (at("2026-11-21T01:00:00Z"), at("2026-11-21T02:00:00Z"));
    world.advance(HOUR);
    world.tried.insert(one, StartOutcome::Later);
    assert!(world.look().is_empty());
    assert_eq!(world.fates(), [Fate::Pending]);
    world.tried.clear();
    assert_eq!(world.look(), [one]);
    world.end_runs("completed");
    world.advance(HOUR);
    world.tried.insert(two, StartOutcome::Refused("no such tenant".into()));
    assert!(world.look().is_empty());
    assert_eq!(world.fates(), [Fate::Fired, Fate::Failed]);
    assert!(world.status.paused.unwrap().reason.contains("no such tenant"));
}
