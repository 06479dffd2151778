//! Schedules on an engine: starts, their requesters, and failures.

use crate::schedules::tests::fixture::{Bench, hourly, oclock};
use crate::{
    Attribution, Engine, Entity as _, Event, HOUR, MINUTE, Occurrence, OccurrenceFate as Fate, Overlap,
    Request, Schedule, Target,
};
use serde_json::json;
use std::time::Duration;

fn order() -> Attribution {
    Attribution { by: "olga".into(), reason: "test".into() }
}

/// S54. The row and the execution are one commit, so the second engine finds both.
#[cfg(feature = "testing")]
#[tokio::test]
async fn of_two_engines_one_starts_an_occurrence_once() {
    let mut bench = Bench::with(Schedule { overlap: Overlap::Allow, ..hourly(json!({})) }).await;
    use store::Store as _;
    // The engines run while the other one is between a read and its commit.
    let store = std::sync::Arc::new(crate::testing::CrashStore::new(bench.store.clone(), None));
    let engine = || {
        Engine::new(store.clone(), bench.clock.clone(), ())
            .with_workflow::<crate::schedules::tests::fixture::Errand>()
            .unwrap()
    };
    let (one, other) = (engine(), engine());
    bench.engine = one;
    for hour in 1..=20 {
        bench.clock.advance(HOUR);
        let (one, two) = tokio::join!(
            bench.engine.run_schedule("hourly", &bench.engine),
            other.run_schedule("hourly", &other)
        );
        let fired = [one.unwrap().started, two.unwrap().started].concat();
        assert_eq!(fired.len(), 1, "{fired:?}");
        assert_eq!(fired[0].nominal, oclock(hour));
    }
    let executions = bench.executions().await;
    let rows = bench.rows().await;
    assert_eq!((executions.len(), rows.len()), (20, 20));
    for row in rows {
        let record = bench.record(row.execution).await;
        assert_eq!((row.fate, record.requested_by.as_str()), (Fate::Fired, "ada"));
        let key = store::Key::new("occurrences", crate::Occurrence::key("hourly", row.nominal));
        let told = store.document(&key).await.unwrap().unwrap().version;
        assert_eq!(bench.engine.journal(record.id).await.unwrap()[0].sequence, told, "of one commit");
    }
}

/// S54. At most one execution exists for a moment, because its idempotency key also prevents a second one.
#[tokio::test]
async fn an_occurrence_started_before_the_schedule_was_deleted_is_not_started_again() {
    let bench = Bench::with(hourly(json!({}))).await;
    let first = bench.pass(HOUR).await.remove(0);
    bench.finish(first.execution.unwrap()).await;
    bench.engine.delete_schedule("hourly", "ada", None).await.unwrap();
    use store::Store as _;
    let forget =
        store::Put { key: store::Key::new("occurrences", format!("hourly/{:020}", oclock(1).0)), body: None };
    bench.store.commit(store::Commit { documents: vec![forget], ..store::Commit::default() }).await.unwrap();

    let again = bench.set(hourly(json!({}))).await;
    assert_eq!(again.version, 2);
    bench.engine.backfill_schedule(&again, (oclock(1), oclock(1)), 1_000, "olga").await.unwrap();
    assert_eq!(bench.look().await, []);

    assert_eq!(bench.executions().await.len(), 1);
    assert_eq!(bench.rows().await[0].execution, first.execution);
}

/// S51. A paused or parked run is open too.
#[tokio::test]
async fn a_paused_or_parked_run_blocks_like_a_running_one() {
    for overlap in [Overlap::Skip, Overlap::BufferOne] {
        let bench = Bench::with(Schedule { overlap, ..hourly(json!({ "sticks": true })) }).await;
        let first = bench.pass(HOUR).await.remove(0).execution.unwrap();
        bench.engine.deliver(first, Event::PauseRequested(order())).await.unwrap();
        assert_eq!(bench.pass(HOUR).await, [], "{overlap:?}: paused");
        bench.engine.cancel(first, order()).await.unwrap();
        bench.engine.run_until_idle().await.unwrap();
        assert_eq!(bench.record(Some(first)).await.phase, "parked");
        assert_eq!(bench.pass(HOUR).await, [], "{overlap:?}: parked");

        bench.engine.deliver(first, Event::TerminateRequested(order())).await.unwrap();
        let started = bench.look().await;

        assert_eq!(started.len(), usize::from(overlap == Overlap::BufferOne), "{overlap:?}");
        assert_eq!(bench.rows().await[0].outcome.as_deref(), Some("terminated"));
    }
}

/// S51.
#[tokio::test]
async fn a_run_is_cancelled_or_terminated_for_the_next_which_starts_when_it_has_ended() {
    for (overlap, outcome) in [(Overlap::CancelOther, "cancelled"), (Overlap::TerminateOther, "terminated")] {
        let bench = Bench::with(Schedule { overlap, pause_on_failure: true, ..hourly(json!({})) }).await;
        let first = bench.pass(HOUR).await.remove(0);
        assert_eq!(bench.pass(HOUR).await, [], "{overlap:?}: not during the first run");
        assert_eq!(bench.record(first.execution).await.reason.as_deref(), Some(outcome));

        let next = bench.look().await;

        assert_eq!(next[0].nominal, oclock(2));
        assert_eq!(bench.rows().await[0].outcome.as_deref(), Some(outcome));
        let history = bench.engine.journal(first.execution.unwrap()).await.unwrap();
        assert!(history.iter().any(|entry| entry.actor == "schedule hourly"), "{history:?}");
    }
}

/// S51. A run that cannot be undone is not replaced: the next occurrence waits.
#[tokio::test]
async fn an_occurrence_waits_for_a_run_whose_cancel_got_stuck() {
    let schedule = Schedule { overlap: Overlap::CancelOther, ..hourly(json!({ "sticks": true })) };
    let bench = Bench::with(schedule).await;
    let first = bench.pass(HOUR).await.remove(0).execution;
    for _ in 0..5 {
        assert_eq!(bench.pass(HOUR).await, []);
    }
    assert_eq!(bench.record(first).await.phase, "parked");
    assert_eq!(
        bench.fates().await,
        [Fate::Fired, Fate::Merged, Fate::Merged, Fate::Merged, Fate::Merged, Fate::Buffered]
    );
}

/// S55, on an engine.
#[tokio::test]
async fn a_failed_run_pauses_its_schedule_until_it_is_resumed() {
    let bench = Bench::with(Schedule { pause_on_failure: true, ..hourly(json!({ "fails": true })) }).await;
    let first = bench.pass(HOUR).await.remove(0).execution.unwrap();
    bench.finish(first).await;

    assert_eq!(bench.pass(HOUR).await, []);

    let paused = bench.standing().await.paused.unwrap();
    assert_eq!((paused.by.as_str(), bench.fates().await[1]), ("engine", Fate::Paused));
    assert!(paused.reason.contains(&first.to_string()), "{}", paused.reason);
    let schedule = bench.engine.schedule("hourly").await.unwrap().unwrap();
    bench.engine.resume_schedule(&schedule).await.unwrap();
    assert_eq!(bench.pass(HOUR).await.len(), 1);
}

#[tokio::test]
async fn if_another_execution_holds_the_subject_an_occurrence_waits_or_is_skipped() {
    for (overlap, fate) in [(Overlap::Skip, Fate::Skipped), (Overlap::BufferAll, Fate::Buffered)] {
        let bench = Bench::with(Schedule { overlap, ..hourly(json!({ "guard": "the door" })) }).await;
        let other =
            crate::schedules::tests::fixture::Errand { guard: Some("the door".into()), ..Default::default() };
        let other = bench.engine.start(other, Request::by_name("olga".into())).await.unwrap().id;

        assert_eq!(bench.pass(HOUR).await, []);

        let row = bench.rows().await.remove(0);
        assert!(row.fate == fate && row.reason.contains(&other.to_string()), "{row:?}");
        bench.finish(other).await;
        assert_eq!(bench.look().await.len(), usize::from(fate == Fate::Buffered));
    }
}

#[tokio::test]
async fn invalid_data_fails_and_an_unregistered_workflow_waits() {
    let bench = Bench::with(hourly(json!({ "fails": "perhaps" }))).await;
    assert_eq!(bench.pass(HOUR).await, []);
    let row = bench.rows().await.remove(0);
    assert!(row.fate == Fate::Failed && row.reason.contains("boolean"), "{row:?}");

    let elsewhere = Target::Start { workflow: "unknown".into(), data: json!({}) };
    let bench = Bench::with(Schedule { target: elsewhere, ..hourly(json!({})) }).await;
    assert_eq!(bench.pass(HOUR).await, []);
    assert_eq!(bench.fates().await, [Fate::Pending], "another engine may know it");
}

/// S50, on an engine: after a long downtime, every occurrence has a row.
#[tokio::test]
async fn after_a_week_of_downtime_every_occurrence_is_recorded() {
    let bench = Bench::with(hourly(json!({}))).await;
    let fired = bench.pass(7 * 24 * HOUR).await;
    assert_eq!(fired.len(), 1);
    let fates = bench.fates().await;
    assert_eq!(fates.len(), 7 * 24);
    assert_eq!(fates.iter().filter(|fate| **fate == Fate::Missed).count(), 7 * 24 - 1);
    assert_eq!(fates.last(), Some(&Fate::Fired));
}

/// S50, for built-in schedules.
#[tokio::test]
async fn a_built_in_schedule_is_claimed_once_and_changes_only_for_future_moments() {
    let bench = Bench::new();
    let minutely = Schedule::built_in("minutely", "* * * * *", "UTC");
    let claim =
        async |schedule| bench.engine.claim_occurrence(schedule).await.unwrap().map(|one| one.nominal);
    assert_eq!(claim(&minutely).await, None, "nothing was due before its first run");
    bench.clock.advance(180 * MINUTE + Duration::from_secs(10));
    assert_eq!(claim(&minutely).await, Some(oclock(3).after(30 * MINUTE)));
    assert_eq!(claim(&minutely).await, None);

    bench.clock.advance(Duration::from_secs(120));
    let hourly = Schedule::built_in("minutely", "31 * * * *", "UTC");
    assert_eq!(claim(&hourly).await, None, "31 had passed before the definition was set");
    bench.clock.advance(HOUR);
    let claimed = bench.engine.claim_occurrence(&hourly).await.unwrap().unwrap();
    assert_eq!(claimed.nominal, oclock(4).after(31 * MINUTE));
    bench.engine.end_occurrence(&claimed, Some("the store is unavailable")).await.unwrap();
    let key = store::Key::new(Occurrence::COLLECTION, claimed.id());
    let row = bench.engine.store().document(&key).await.unwrap().unwrap();
    let row: Occurrence = serde_json::from_slice(&row.body).unwrap();
    assert_eq!((row.outcome.as_deref(), row.reason.as_str()), (Some("failed"), "the store is unavailable"));
}

/// R10 of the public bugs of schedulers.
#[tokio::test]
async fn operators_are_notified_once_when_a_schedule_begins_to_fail() {
    use store::Store as _;
    let bench = Bench::with(Schedule { overlap: Overlap::Allow, ..hourly(json!({ "fails": true })) }).await;
    for _ in 0..3 {
        for run in bench.pass(HOUR).await {
            bench.finish(run.execution.unwrap()).await;
        }
        bench.look().await;
    }
    let failing = bench.standing().await.failing.unwrap();
    assert!(failing.reason.contains("rolled_back"), "{failing:?}");
    let told = bench.store.documents(crate::Notification::COLLECTION, "", None, 100).await.unwrap().items;
    let told = told.iter().map(|one| serde_json::from_slice::<crate::Notification>(&one.body).unwrap());
    assert_eq!(told.filter(|one| one.kind == "schedule.failed").count(), 1);
}
