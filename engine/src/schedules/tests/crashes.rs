//! A process that crashes around any commit of a schedule, and the next process. S54.

use crate::schedules::tests::fixture::{Bench, Errand, hourly};
use crate::{
    Engine, Error, HOUR, MINUTE, OccurrenceFate as Fate, Overlap, Schedule,
    testing::{crash_store::CrashStore, script::CrashPoint},
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};
use store::Filter;

/// Repeats the work until it is done, in a new process after each crash.
async fn retry_over_crashes<T>(store: &CrashStore, mut work: impl AsyncFnMut() -> Result<T, Error>) -> T {
    for _ in 0..3 {
        match work().await {
            Ok(done) => return done,
            Err(_) if store.is_dead() => store.revive(),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("it crashes again and again");
}

/// Runs five hours of an hourly schedule with late ends of runs and one crash. Returns the number of commits.
async fn five_hours(cut: Option<CrashPoint>) -> usize {
    let schedule = Schedule { overlap: Overlap::BufferAll, ..hourly(json!({})) };
    let bench = Bench::with(schedule).await;
    let store = Arc::new(CrashStore::new(bench.store.clone(), cut));
    let engine = Engine::new(store.clone(), bench.clock.clone(), ()).with_workflow::<Errand>().unwrap();
    for _ in 0..5 {
        bench.clock.advance(HOUR);
        retry_over_crashes(&store, async || engine.run_schedule("hourly", &engine).await).await;
        retry_over_crashes(&store, async || engine.run_until_idle().await).await;
    }
    for _ in 0..12 {
        bench.clock.advance(MINUTE);
        retry_over_crashes(&store, async || engine.run_until_idle().await).await;
        let open = Filter { open: Some(true), ..Filter::default() };
        let open = retry_over_crashes(&store, async || engine.list(&open, None, 10).await).await.items;
        assert!(open.len() <= 1, "{cut:?}: two runs at once");
        for run in open {
            retry_over_crashes(&store, async || engine.signal(run.id, "finished").await).await;
        }
        retry_over_crashes(&store, async || engine.run_until_idle().await).await;
        retry_over_crashes(&store, async || engine.run_schedule("hourly", &engine).await).await;
    }
    let (rows, executions) = (bench.rows().await, bench.executions().await);
    assert_eq!(rows.iter().map(|row| row.fate).collect::<Vec<_>>(), [Fate::Fired; 5], "{cut:?}");
    let started: BTreeSet<_> = rows.iter().filter_map(|row| row.execution).collect();
    let there: BTreeSet<_> = executions.iter().map(|record| record.id).collect();
    assert_eq!((started.len(), started), (5, there), "{cut:?}");
    store.commits()
}

/// S54.
#[tokio::test]
async fn a_crash_around_any_commit_leaves_an_occurrence_started_once_or_not_yet() {
    let commits = five_hours(None).await;
    assert!(commits >= 20, "{commits}");
    for nth in 1..=commits {
        five_hours(Some(CrashPoint::Before(nth))).await;
        five_hours(Some(CrashPoint::After(nth))).await;
    }
}
