//! Commands on schedules, and when they take effect.

use crate::schedules::tests::fixture::{Bench, hourly, oclock};
use crate::{Clock as _, HOUR, MINUTE, OccurrenceFate as Fate, Origin, Overlap, Schedule, Target};
use serde_json::json;
use std::time::Duration;
use store::Timestamp;

/// S52. Between the moment and the end of its jitter, the whole definition changes.
#[tokio::test]
async fn a_pending_start_survives_a_change_with_its_old_definition() {
    let bench = Bench::with(Schedule { jitter: 20 * MINUTE, ..hourly(json!({ "fails": true })) }).await;
    let due = bench.engine.schedule("hourly").await.unwrap().unwrap().due(oclock(1));
    bench.clock.advance_to(oclock(1));
    assert_eq!(bench.look().await, []);
    let changed = Schedule { cron: "45 23 * * *".into(), ..hourly(json!({})) };
    bench.engine.set_schedule(changed, "grace", None).await.unwrap();

    bench.clock.advance_to(due);
    let fired = bench.look().await;

    assert_eq!((fired.len(), fired[0].nominal, fired[0].version), (1, oclock(1), 1));
    let record = bench.record(fired[0].execution).await;
    assert_eq!(record.requested_by, "ada", "by the old definition");
    assert!(String::from_utf8(record.body).unwrap().contains(r#""fails":true"#));
}

/// S52.
#[tokio::test]
async fn a_change_starts_no_past_occurrence_and_loses_none() {
    let bench = Bench::with(hourly(json!({}))).await;
    // No engine ran for a while; then the schedule changes to one that would have been due every minute.
    bench.clock.advance(3 * HOUR);
    bench.set(Schedule { cron: "* * * * *".into(), ..hourly(json!({})) }).await;
    assert_eq!(bench.look().await.iter().map(|one| one.nominal).collect::<Vec<_>>(), [oclock(3)]);
    assert_eq!(bench.fates().await, [Fate::Missed, Fate::Missed, Fate::Fired]);

    let first = bench.rows().await[2].execution.unwrap();
    bench.finish(first).await;
    let next = bench.pass(MINUTE).await;
    assert_eq!(next[0].nominal, oclock(3).after(31 * MINUTE), "the first after the change");
}

#[tokio::test]
async fn a_change_made_on_another_version_than_was_read_is_refused() {
    let bench = Bench::with(hourly(json!({}))).await;
    let stale = bench.engine.set_schedule(hourly(json!({})), "ada", Some(0)).await.unwrap_err();
    assert!(stale.to_string().contains("schedule.changed: schedule hourly is at version 1"), "{stale}");
    assert_eq!(bench.engine.set_schedule(hourly(json!({})), "ada", Some(1)).await.unwrap().version, 2);
    let built_in = Schedule { target: Target::BuiltIn, ..hourly(json!({})) };
    let refused = bench.engine.set_schedule(built_in, "ada", None).await.unwrap_err();
    assert!(refused.to_string().contains("schedule.invalid"), "{refused}");
}

#[tokio::test]
async fn a_paused_schedule_records_skipped_occurrences_and_continues_on_resume() {
    let bench = Bench::with(Schedule { overlap: Overlap::Allow, ..hourly(json!({})) }).await;
    let schedule = bench.engine.schedule("hourly").await.unwrap().unwrap();
    // Occurrences that were due before the pause are not recorded as paused.
    bench.clock.advance(HOUR - Duration::from_secs(1_810));
    bench.clock.advance(Duration::from_secs(1));
    bench.engine.pause_schedule(&schedule, "olga", "maintenance").await.unwrap();
    let twice = bench.engine.pause_schedule(&schedule, "olga", "again").await.unwrap_err();
    assert!(twice.to_string().contains("is paused by olga: maintenance"), "{twice}");
    bench.clock.advance(3 * HOUR);
    assert_eq!(bench.look().await, []);
    bench.clock.advance(2 * HOUR);
    bench.engine.resume_schedule(&schedule).await.unwrap();
    assert_eq!(bench.look().await, [], "no occurrence of the pause is started later");
    let rows = bench.rows().await;
    assert_eq!(rows.len(), 5);
    assert!(
        rows.iter().all(|row| row.fate == Fate::Paused && row.reason == "by olga: maintenance"),
        "{rows:?}"
    );
    assert_eq!(bench.pass(HOUR).await.len(), 1);
    assert!(bench.engine.resume_schedule(&schedule).await.unwrap_err().to_string().contains("is not paused"));
}

#[tokio::test]
async fn a_trigger_starts_an_occurrence_at_once_even_while_the_schedule_is_paused() {
    let bench = Bench::with(hourly(json!({}))).await;
    let schedule = bench.engine.schedule("hourly").await.unwrap().unwrap();
    bench.engine.pause_schedule(&schedule, "olga", "").await.unwrap();

    let asked = bench.engine.trigger_schedule(&schedule, "olga", None).await.unwrap();
    let fired = bench.look().await;

    assert_eq!((fired.len(), fired[0].nominal), (1, asked.nominal));
    assert_eq!((fired[0].origin, fired[0].by.as_deref()), (Origin::Trigger, Some("olga")));
    assert_eq!(
        bench.record(fired[0].execution).await.requested_by,
        "ada",
        "the person who set it cannot approve it"
    );
    // The overlap policy applies, and the same moment has two occurrences.
    bench.engine.trigger_schedule(&schedule, "olga", None).await.unwrap();
    assert_eq!(bench.look().await, []);
    assert_eq!(bench.fates().await, [Fate::Fired, Fate::Skipped]);
}

/// The first server may have crashed before it answered.
#[tokio::test]
async fn the_same_key_triggers_one_occurrence() {
    let bench = Bench::with(hourly(json!({}))).await;
    let schedule = bench.engine.schedule("hourly").await.unwrap().unwrap();
    let once = ("key/olga/k-1".to_owned(), "f".to_owned());

    let first = bench.engine.trigger_schedule(&schedule, "olga", Some(&once)).await.unwrap();
    let fired = bench.look().await;
    bench.clock.advance(MINUTE);
    let again = bench.engine.trigger_schedule(&schedule, "olga", Some(&once)).await.unwrap();

    assert_eq!(
        (again.nominal, again.fate),
        (first.nominal, Fate::Fired),
        "the first occurrence in its current state"
    );
    assert_eq!((fired.len(), bench.look().await.len()), (1, 0));
    let other = (once.0, "g".to_owned());
    let refused = bench.engine.trigger_schedule(&schedule, "olga", Some(&other)).await.unwrap_err();
    assert!(refused.to_string().contains("key_reused"), "{refused}");
}

/// Expressions name full seconds, which are reserved for them.
#[tokio::test]
async fn a_triggered_occurrence_uses_no_moment_of_the_expression() {
    let bench = Bench::with(hourly(json!({}))).await;
    let schedule = bench.engine.schedule("hourly").await.unwrap().unwrap();
    bench.clock.advance(HOUR - MINUTE * 30 - Duration::from_millis(2));
    let mut asked = Vec::new();
    for _ in 0..4 {
        asked.push(bench.engine.trigger_schedule(&schedule, "olga", None).await.unwrap().nominal.0);
    }
    let full = oclock(1).0;
    assert_eq!(asked, [full - 2, full - 1, full + 1, full + 2]);
}

/// S48.
#[tokio::test]
async fn a_waiting_occurrence_that_is_skipped_never_starts_and_frees_its_place() {
    let bench = Bench::with(Schedule { overlap: Overlap::BufferOne, ..hourly(json!({})) }).await;
    let schedule = bench.engine.schedule("hourly").await.unwrap().unwrap();
    let first = bench.pass(HOUR).await.remove(0).execution.unwrap();
    bench.pass(HOUR).await;
    assert_eq!(bench.fates().await, [Fate::Fired, Fate::Buffered]);

    bench.engine.skip_occurrence(&schedule, oclock(2), "olga", "not today").await.unwrap();
    bench.pass(HOUR).await;
    bench.finish(first).await;
    let fired = bench.look().await;

    assert_eq!(fired.len(), 1);
    assert_eq!(fired[0].nominal, oclock(3), "it took the place that had become free");
    let skipped = &bench.rows().await[1];
    assert_eq!(
        (skipped.fate, skipped.reason.as_str(), skipped.execution),
        (Fate::Skipped, "by olga: not today", None)
    );
    let twice = bench.engine.skip_occurrence(&schedule, oclock(2), "olga", "").await.unwrap_err();
    assert!(twice.to_string().contains("schedule.not_waiting"), "{twice}");
}

#[tokio::test]
async fn a_deleted_schedule_starts_nothing_and_keeps_its_history() {
    let bench = Bench::with(Schedule { overlap: Overlap::BufferAll, ..hourly(json!({})) }).await;
    let first = bench.pass(HOUR).await.remove(0).execution;
    bench.pass(HOUR).await;
    let stale = bench.engine.delete_schedule("hourly", "olga", Some(2)).await.unwrap_err();
    assert!(stale.to_string().contains("schedule.changed: schedule hourly is at version 1"), "{stale}");
    bench.engine.delete_schedule("hourly", "olga", Some(1)).await.unwrap();

    assert_eq!(bench.pass(10 * HOUR).await, []);

    let rows = bench.rows().await;
    assert_eq!(rows.iter().map(|row| row.fate).collect::<Vec<_>>(), [Fate::Fired, Fate::Skipped]);
    assert_eq!(rows[1].reason, "the schedule was deleted by olga");
    assert!(bench.record(first).await.open, "running executions continue");
    let gone = bench.engine.delete_schedule("hourly", "olga", None).await.unwrap_err();
    assert!(gone.to_string().contains("schedule.unknown"), "{gone}");
    let again = bench.set(hourly(json!({}))).await;
    assert_eq!(
        (again.version, bench.pass(HOUR).await.len()),
        (2, 0),
        "the first run of its earlier life is open"
    );
}

/// S53, on an engine.
#[tokio::test]
async fn a_backfill_starts_missed_occurrences_one_after_the_other() {
    let bench = Bench::with(hourly(json!({}))).await;
    bench.pass(5 * HOUR).await;
    let schedule = bench.engine.schedule("hourly").await.unwrap().unwrap();
    let wrong =
        bench.engine.backfill_schedule(&schedule, (oclock(1), oclock(9)), 1_000, "olga").await.unwrap_err();
    assert!(wrong.to_string().contains("to: use a past moment"), "{wrong}");
    let wrong =
        bench.engine.backfill_schedule(&schedule, (oclock(3), oclock(2)), 1_000, "olga").await.unwrap_err();
    assert!(wrong.to_string().contains("to: the span ends before it begins"), "{wrong}");
    bench.engine.backfill_schedule(&schedule, (oclock(2), oclock(5)), 1_000, "olga").await.unwrap();
    for _ in 0..6 {
        for row in bench.rows().await.iter().filter(|row| row.outcome.is_none()) {
            if let Some(id) = row.execution {
                bench.finish(id).await;
            }
        }
        bench.look().await;
    }
    let rows = bench.rows().await;
    let told: Vec<_> = rows.iter().map(|row| (row.fate, row.reason.as_str(), row.by.as_deref())).collect();
    let made_up = (Fate::Fired, "was missed", Some("olga"));
    assert_eq!(told, [(Fate::Missed, told[0].1, None), made_up, made_up, made_up, (Fate::Fired, "", None)]);
    assert_eq!(bench.executions().await.len(), 4);
}

/// Documents of the previous version.
#[tokio::test]
async fn a_cursor_and_an_occurrence_of_the_first_schema_are_read() {
    use store::Store as _;
    let bench = Bench::new();
    let put = |collection: &str, id: &str, body: &str| store::Put {
        key: store::Key::new(collection, id),
        body: Some(body.as_bytes().to_vec()),
    };
    let done = oclock(0).0;
    let documents = vec![
        put("schedules", "sweep drift", &format!(r#"{{"done":{done}}}"#)),
        put(
            "occurrences",
            &format!("hourly/{done:020}"),
            &format!(r#"{{"schedule":"hourly","nominal":{done},"at":{done},"fate":"missed"}}"#),
        ),
    ];
    bench.store.commit(store::Commit { documents, ..store::Commit::default() }).await.unwrap();
    assert_eq!(bench.rows().await[0].fate, Fate::Missed);
    let drift = Schedule::built_in("sweep drift", "20 0 * * *", "UTC");
    let claimed = bench.engine.claim_occurrence(&drift).await.unwrap().unwrap();
    assert_eq!(claimed.nominal, oclock(0).after(20 * MINUTE), "it continues where it stopped");
    let row = serde_json::to_string(&claimed).unwrap();
    assert_eq!(row.matches(':').count(), 4, "and a plain row is written as before: {row}");
}

/// R11 of the public bugs of schedulers: a span of 3.6 million moments was accepted without a warning.
#[tokio::test]
async fn a_backfill_with_too_many_moments_is_counted_and_refused() {
    let schedule = Schedule { cron: "* * * * *".into(), ..hourly(json!({})) };
    let bench = Bench::new();
    let schedule = bench.set(schedule).await;
    bench.clock.advance(HOUR);
    let now = bench.clock.now();
    let long = (Timestamp(now.0 - 86_400_000 * 2_000), now);
    let wrong = bench.engine.backfill_schedule(&schedule, long, crate::BACKFILL_USUAL, "olga").await;
    let why = wrong.unwrap_err().to_string();
    assert!(why.contains("more than 1000 moments") && why.contains("`most`"), "{why}");
    let wrong = bench.engine.backfill_schedule(&schedule, long, u64::MAX, "olga").await.unwrap_err();
    assert!(wrong.to_string().contains("at most 20000"), "{wrong}");
    assert!(bench.standing().await.backfills.is_empty());

    let (from, to) = (oclock(1), Timestamp(oclock(1).0 + 9 * 60_000));
    let span = schedule.span((from, to), 1_000).unwrap();
    assert_eq!((span.moments, span.more, span.first, span.last), (10, false, Some(from), Some(to)));
    let span = schedule.span((from, to), 4).unwrap();
    assert_eq!((span.moments, span.more), (4, true));
    bench.engine.backfill_schedule(&schedule, (from, to), 10, "olga").await.unwrap();
}

#[tokio::test]
async fn a_backfill_that_was_cancelled_starts_nothing_more() {
    let bench = Bench::with(hourly(json!({}))).await;
    bench.pass(5 * HOUR).await;
    let schedule = bench.engine.schedule("hourly").await.unwrap().unwrap();
    bench.engine.backfill_schedule(&schedule, (oclock(2), oclock(5)), 1_000, "olga").await.unwrap();

    let given_up = bench.engine.cancel_backfills(&schedule, "olga", "the wrong span").await.unwrap();

    assert_eq!(given_up.len(), 1);
    let before = bench.executions().await.len();
    for _ in 0..6 {
        for row in bench.rows().await.iter().filter(|row| row.outcome.is_none()) {
            if let Some(id) = row.execution {
                bench.finish(id).await;
            }
        }
        bench.look().await;
    }
    assert_eq!(bench.executions().await.len(), before, "{:?}", bench.rows().await);
    let standing = bench.standing().await;
    assert!(standing.backfills.is_empty() && standing.waiting.is_empty(), "{standing:?}");
    let again = bench.engine.cancel_backfills(&schedule, "olga", "").await.unwrap_err();
    assert!(again.to_string().contains("no backfill of schedule hourly waits"), "{again}");
}
