//! Ownership of work: leases, fencing, recovery, poison, and keys that start nothing twice.

use super::job::{Bench, Job, Reply, Spec, does, requester};
use engine::{Engine, Error, MINUTE, Options, Request};
use std::sync::Arc;
use store::{Commit, Store, Write};

/// S07, S54: also for two engines that share a store.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn two_engines_on_one_store_never_run_a_step_at_once() {
    let bench = Bench::new();
    let clock = Arc::new(engine::SystemClock);
    let engines: Vec<Engine<_>> = (0..2)
        .map(|n| {
            let engine = Engine::new(bench.store.clone(), clock.clone(), bench.stage.clone())
                .with_workflow::<Job>()
                .unwrap();
            engine.with_options(Options { holder: format!("engine {n}"), ..Options::default() })
        })
        .collect();
    let mut started = Vec::new();
    for _ in 0..50 {
        let job = Job::of([does(&["a", "b", "c"]), does(&["d"])]);
        started.push(engines[0].start(job, Request::by(&requester())).await.unwrap());
    }

    let (stop, stopped) = tokio::sync::watch::channel(false);
    let running: Vec<_> = engines
        .into_iter()
        .map(|engine| {
            let mut stopped = stopped.clone();
            tokio::spawn(async move { engine.run(async move { _ = stopped.wait_for(|s| *s).await }).await })
        })
        .collect();
    for job in &started {
        while bench.stands(*job).await.2.is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
    }
    stop.send(true).unwrap();
    for engine in running {
        engine.await.unwrap().unwrap();
    }

    let mut keys: Vec<_> = bench.stage.keys.lock().unwrap().iter().map(|(key, _)| key.clone()).collect();
    let all = keys.len();
    keys.sort();
    keys.dedup();
    assert_eq!((all, keys.len()), (200, 200), "every key was used once");
}

/// S13: the execution is closed by force while a step runs, and its subject is started again. The old step's result is
/// ignored.
#[tokio::test]
async fn a_step_that_outlives_its_execution_does_not_change_the_next_one() {
    let bench = Bench::new();
    let guarded = || Job { guard: Some("lifecycle of job".into()), ..Job::of([does(&["a"]), does(&["b"])]) };
    bench.stage.on("do a", [Reply::Gate]);
    let old = bench.engine.start(guarded(), Request::by(&requester())).await.unwrap();
    let slow = bench.engine.clone();
    let slow = tokio::spawn(async move { slow.work_next().await });
    while bench.stage.keys.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }
    let order = engine::Attribution { by: "ops".into(), reason: "stuck".into() };
    bench.engine.deliver(old.id, engine::Event::TerminateRequested(order)).await.unwrap();
    let new = bench.engine.start(guarded(), Request::by(&requester())).await.unwrap();
    let (ended, begun) =
        (bench.engine.record(old.id).await.unwrap(), bench.engine.record(new.id).await.unwrap());

    bench.stage.gate.add_permits(1);
    slow.await.unwrap().unwrap();

    assert_eq!(bench.engine.record(old.id).await.unwrap(), ended, "an ended execution does not change");
    assert_eq!(bench.engine.record(new.id).await.unwrap(), begun, "and the new one has not started");
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.stands(new).await.0, "Done");
}

#[tokio::test]
async fn a_late_result_is_refused_and_the_refusal_is_journalled() {
    let bench = Bench::new();
    bench.stage.on("do a", [Reply::Gate]);
    let job = bench.start([does(&["a"])]).await;
    let slow = bench.engine.clone();
    let slow = tokio::spawn(async move { slow.work_next().await });
    while bench.stage.keys.lock().unwrap().is_empty() {
        tokio::task::yield_now().await;
    }

    bench.clock.advance(MINUTE);
    bench.settle(MINUTE).await;
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"), "another worker leased it");
    bench.stage.gate.add_permits(1);
    slow.await.unwrap().unwrap();

    assert!(bench.events(job).await.contains(&"fenced".to_owned()));
    let keys = bench.stage.keys.lock().unwrap().clone();
    assert_eq!(keys[0].0, keys[1].0, "the same key on both attempts");
    assert_eq!((keys[0].1, keys[1].1), (1, 2));
}

/// S12.
#[tokio::test]
async fn a_task_that_repeatedly_crashes_its_engine_is_parked_and_others_continue() {
    let bench = Bench::new();
    let poisoned = bench.start([does(&["a"])]).await;
    for _ in 0..9 {
        bench.lose_a_worker().await;
    }
    let healthy = bench.start([does(&["b"])]).await;

    bench.settle(MINUTE).await;

    assert_eq!(bench.stands(poisoned).await, ("First".into(), "parked".into(), Some("poisoned".into())));
    assert_eq!(bench.stands(healthy).await.2.as_deref(), Some("completed"));
}

#[tokio::test]
async fn an_unreadable_execution_is_skipped_and_the_others_continue() {
    let bench = Bench::new();
    let broken = bench.start([does(&["a"])]).await;
    let mut record = bench.engine.record(broken.id).await.unwrap();
    record.body = b"{\"state\":\"Nowhere\"}".to_vec();
    let write = Write { expected: Some(record.revision), record };
    bench.store.commit(Commit { record: Some(write), ..Commit::default() }).await.unwrap();
    let healthy = bench.start([does(&["b"])]).await;

    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(healthy).await.2.as_deref(), Some("completed"));
    assert!(matches!(bench.engine.execution(broken.id).await, Err(Error::Unreadable { .. })));
    assert_eq!(
        bench.store.tasks(broken.id).await.unwrap().len(),
        2,
        "its work waits for a version that can read it"
    );
}

/// S58, as far as one schema goes.
#[tokio::test]
async fn an_execution_of_an_unknown_workflow_or_schema_is_not_touched() {
    let bench = Bench::new();
    let job = bench.start([does(&["a"])]).await;
    let record = bench.engine.record(job.id).await.unwrap();
    let write = Write { expected: Some(record.revision), record: store::Record { schema: 2, ..record } };
    bench.store.commit(Commit { record: Some(write), ..Commit::default() }).await.unwrap();

    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stage.log(), Vec::<String>::new());
    assert_eq!(bench.store.tasks(job.id).await.unwrap().len(), 2);
}

/// A version without the schema reads the task repeatedly for half an hour, until a version with the schema takes it.
#[tokio::test]
async fn a_task_that_was_never_attempted_is_not_treated_as_crashing() {
    let bench = Bench::new();
    let job = bench.start([does(&["a"])]).await;
    let as_schema = async |schema| {
        let record = bench.engine.record(job.id).await.unwrap();
        let write = Write { expected: Some(record.revision), record: store::Record { schema, ..record } };
        bench.store.commit(Commit { record: Some(write), ..Commit::default() }).await.unwrap();
    };
    as_schema(2).await;
    bench.settle(30 * MINUTE).await;

    as_schema(1).await;
    bench.settle(30 * MINUTE).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
    let attempts: Vec<_> = bench.stage.keys.lock().unwrap().iter().map(|(_, attempt)| *attempt).collect();
    assert_eq!(attempts, [1]);
}

/// S50, at small scale.
#[tokio::test]
async fn after_a_long_stop_a_schedule_fires_its_latest_occurrence_once() {
    let bench = Bench::new();
    let minutely = engine::Schedule::built_in("minutely", "* * * * *", "UTC");
    assert_eq!(
        bench.engine.claim_occurrence(&minutely).await.unwrap(),
        None,
        "no earlier occurrence was due"
    );
    bench.clock.advance(180 * MINUTE);

    let fired = bench.engine.claim_occurrence(&minutely).await.unwrap().unwrap();

    use engine::Clock as _;
    assert!(bench.clock.now().since(fired.nominal) < MINUTE, "only the latest occurrence");
    assert_eq!(bench.engine.claim_occurrence(&minutely).await.unwrap(), None);
}

#[tokio::test]
async fn the_same_request_starts_no_second_execution_even_concurrently() {
    let bench = Bench::new();
    let request = || Request::by(&requester()).with_idempotency_key("key-1", "body-1");
    let start = || bench.engine.start(Job::of([does(&["a"])]), request());

    let (one, two) = tokio::join!(start(), start());
    let three = start().await.unwrap();

    let (one, two) = (one.unwrap(), two.unwrap());
    assert_eq!((one.id, one.id), (two.id, three.id));
    assert!(one.replayed != two.replayed && three.replayed);
    let other = bench
        .engine
        .start(Job::of([]), Request::by(&requester()).with_idempotency_key("key-1", "body-2"))
        .await;
    assert!(matches!(other, Err(Error::KeyReused { .. })));
}

#[tokio::test]
async fn each_guard_has_one_open_execution_and_a_refusal_names_it() {
    let bench = Bench::new();
    let job = || Job { guard: Some("tenant/acme".into()), ..Job::of([Spec::Listen]) };
    let first = bench.engine.start(job(), Request::by(&requester())).await.unwrap();

    let second = bench.engine.start(job(), Request::by(&requester())).await;

    let Err(Error::Store(store::Error::Busy { holder, .. })) = second else { panic!("{second:?}") };
    assert_eq!(holder, first.id);
    bench
        .engine
        .cancel(first.id, engine::Attribution { by: "olga".into(), reason: String::new() })
        .await
        .unwrap();
    bench.engine.start(job(), Request::by(&requester())).await.unwrap();
}

/// S03.
#[tokio::test]
async fn a_finished_execution_is_never_processed_again() {
    let bench = Bench::new();
    let job = bench.start([does(&["a"])]).await;
    bench.settle(MINUTE).await;
    assert_eq!(bench.store.tasks(job.id).await.unwrap(), vec![], "no task of it remains");

    let before = bench.stage.log();
    bench.settle(100 * MINUTE).await;

    assert_eq!(bench.stage.log(), before);
}
