//! Permits of an attempt while it runs, while it is pending, and after a crash of its worker.

use super::{
    limits::why,
    one_step::{Bench, OneStep, Reply},
};
use crate::{ActionError, Attribution, Clock as _, Event, HOUR, MINUTE, SECOND};
use std::{sync::atomic::Ordering, time::Duration};
use store::Store as _;

const KEY: &str = "cluster/eu-1";

fn order() -> Attribution {
    Attribution { by: "ada".into(), reason: "no longer wanted".into() }
}

/// S47: the attempt of a terminated execution ends, and the next task starts without waiting for a lease to expire.
#[tokio::test(start_paused = true)]
async fn terminating_a_running_execution_frees_the_next_task_of_its_key() {
    let bench = Bench::new();
    bench.at_most(KEY, 1).await;
    bench.platform.on("first", [Reply::Hang]);
    let first = bench.start(OneStep::of("a", "first")).await;
    let work = bench.begin(1).await;
    let queued = bench.start(OneStep::of("a", "queued")).await;
    bench.engine.run_until_idle().await.unwrap();

    let killed = tokio::time::Instant::now();
    bench.engine.deliver(first, Event::TerminateRequested(order())).await.unwrap();
    work.await.unwrap();
    assert!(killed.elapsed() < SECOND, "{:?}", killed.elapsed());
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.platform.inside.load(Ordering::SeqCst), 0, "the attempt has ended");
    assert_eq!(bench.stands(first).await, "terminated");
    assert_eq!(bench.stands(queued).await, "completed");
}

/// S47, for a pending action; also by an engine that was restarted.
#[tokio::test]
async fn terminating_a_pending_execution_frees_the_next_task_of_its_key() {
    for restarted in [false, true] {
        let mut bench = Bench::new();
        bench.at_most(KEY, 1).await;
        bench.platform.on("first", [Reply::Fail(ActionError::pending("yard.digging", HOUR))]);
        let first = bench.start(OneStep { keeps_places: true, ..OneStep::of("a", "first") }).await;
        bench.engine.run_until_idle().await.unwrap();
        if restarted {
            bench.engine = bench.another();
        }
        let queued = bench.start(OneStep::of("a", "queued")).await;
        bench.engine.run_until_idle().await.unwrap();
        assert_eq!(why(&bench, queued), "cluster/eu-1: 1 of 1 in use, 0 before it");
        bench.clock.advance(MINUTE);
        bench.engine.run_until_idle().await.unwrap();
        assert_eq!(bench.platform.begun(), ["first"], "its place outlives a lease");

        bench.engine.deliver(first, Event::TerminateRequested(order())).await.unwrap();
        bench.engine.run_until_idle().await.unwrap();

        assert_eq!(bench.stands(queued).await, "completed", "restarted: {restarted}");
    }
}

#[tokio::test]
async fn a_step_chooses_whether_a_pending_action_keeps_its_permit() {
    for keeps_places in [false, true] {
        let bench = Bench::new();
        bench.at_most(KEY, 1).await;
        bench.platform.on("first", [Reply::Fail(ActionError::pending("yard.digging", 10 * MINUTE))]);
        bench.start(OneStep { keeps_places, ..OneStep::of("a", "first") }).await;
        bench.engine.run_until_idle().await.unwrap();

        bench.start(OneStep::of("a", "second")).await;
        bench.engine.run_until_idle().await.unwrap();

        assert_eq!(bench.platform.begun().len(), if keeps_places { 1 } else { 2 });
        bench.settle(HOUR).await;
        let order = if keeps_places { ["first", "first", "second"] } else { ["first", "second", "first"] };
        assert_eq!(bench.platform.begun(), order);
    }
}

/// A crashed worker keeps its permit as long as its lease, and no longer.
#[tokio::test]
async fn a_crash_frees_the_permit_when_the_lease_expires() {
    let bench = Bench::new();
    bench.at_most(KEY, 1).await;
    bench.platform.on("first", [Reply::Hang, Reply::Hang]);
    bench.start(OneStep::of("a", "first")).await;
    let dying = bench.begin(1).await;
    dying.abort();
    bench.until(|yard| yard.inside.load(Ordering::SeqCst) == 0).await;
    let survivor = bench.another();
    let second = bench.start(OneStep::of("b", "second")).await;

    bench.clock.advance(29 * SECOND);
    survivor.run_until_idle().await.unwrap();
    assert_eq!(bench.platform.begun(), ["first"]);
    bench.clock.advance(6 * SECOND);
    // The lost task is due again too, and belongs to the other tenant.
    let leases = bench.store.lease("elsewhere", bench.clock.now(), SECOND, 9).await.unwrap();
    for lease in leases {
        let due =
            if lease.task.id.execution == second { bench.clock.now() } else { bench.clock.now().after(HOUR) };
        bench.store.release(lease.task.id, lease.epoch, due, lease.deliveries - 1).await.unwrap();
    }
    survivor.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(second).await, "completed");
}

/// A long attempt keeps its permit with its lease.
#[tokio::test(start_paused = true)]
async fn a_permit_is_renewed_while_its_attempt_runs() {
    let bench = Bench::new();
    bench.at_most(KEY, 1).await;
    bench.platform.on("first", [Reply::Hang]);
    bench.start(OneStep::of("a", "first")).await;
    let _work = bench.begin(1).await;
    let second = bench.start(OneStep::of("b", "second")).await;
    for _ in 0..9 {
        bench.clock.advance(10 * SECOND);
        tokio::time::sleep(10 * SECOND + Duration::from_millis(1)).await;
        bench.engine.run_until_idle().await.unwrap();
    }
    assert_eq!(bench.platform.begun(), ["first"]);
    assert_eq!(why(&bench, second), "cluster/eu-1: 1 of 1 in use, 0 before it");
}

/// A redelivered task uses the permit of its crashed worker, and needs no other.
#[tokio::test]
async fn a_task_delivered_again_keeps_its_permit() {
    let bench = Bench::new();
    bench.at_most(KEY, 1).await;
    bench.platform.on("first", [Reply::Hang]);
    let first = bench.start(OneStep::of("a", "first")).await;
    // The lease expires before the permit does.
    let lease = bench.store.lease("dying", bench.clock.now(), 20 * SECOND, 1).await.unwrap().remove(0);
    let engine = bench.engine.clone();
    let dying = tokio::spawn(async move { engine.work(lease).await });
    bench.until(|yard| yard.inside.load(Ordering::SeqCst) == 1).await;
    dying.abort();
    bench.until(|yard| yard.inside.load(Ordering::SeqCst) == 0).await;

    bench.clock.advance(20 * SECOND);
    bench.another().run_until_idle().await.unwrap();

    assert_eq!(bench.stands(first).await, "completed");
    assert_eq!(bench.platform.probes.load(Ordering::SeqCst), 1, "its outcome is in doubt, so it is probed");
}
