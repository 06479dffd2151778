//! Limits of executions: deferred, woken, fair, and always released.

use super::{
    one_step::{Bench, OneStep, Reply},
    random::Random,
};
use crate::{
    ActionError, Attribution, Breaker, BreakerRule, BreakerState, Clock as _, Engine, Event, HOUR,
    KeyClosure, Limit, MINUTE, Rate, RetryPolicy, SECOND,
};
use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use store::{ExecutionId, Store as _};

const KEY: &str = "cluster/eu-1";

fn order() -> Attribution {
    Attribution { by: "ada".into(), reason: "no longer wanted".into() }
}

pub(super) fn why(bench: &Bench, id: ExecutionId) -> String {
    let waits = bench.engine.waiting_attempts(id);
    waits.iter().map(|wait| format!("{}: {}", wait.key, wait.reason)).collect()
}

/// Two engines on one store never exceed the limit, and every task gets its turn. The engines run while the other one
/// is between a read and its commit.
#[cfg(feature = "testing")]
#[tokio::test]
async fn a_limit_holds_across_engines() {
    let mut bench = Bench::new();
    let store = Arc::new(crate::testing::CrashStore::new(bench.store.clone(), None));
    let engine = || {
        Engine::new(store.clone(), bench.clock.clone(), bench.platform.clone())
            .with_workflow::<OneStep>()
            .unwrap()
    };
    let (one, two) = (engine(), engine());
    bench.engine = one;
    bench.at_most(KEY, 3).await;
    for n in 0..40 {
        let (tenant, name) = (["a", "b", "c"][n % 3], format!("dig {n}"));
        bench.platform.on(&name, [Reply::Gate]);
        bench.start(OneStep::of(tenant, &name)).await;
    }
    let over = Arc::new(AtomicBool::new(false));
    for worker in 0..12 {
        let engine = if worker % 2 == 0 { bench.engine.clone() } else { two.clone() };
        let over = over.clone();
        tokio::spawn(async move {
            while !over.load(Ordering::SeqCst) {
                if !engine.work_next().await.unwrap() {
                    tokio::task::yield_now().await;
                }
            }
        });
    }

    let mut dice = Random::new(5);
    for _ in 0..10_000 {
        for _ in 0..dice.below(30) {
            tokio::task::yield_now().await;
        }
        let gate = bench.platform.gate.as_ref().unwrap();
        if bench.platform.inside.load(Ordering::SeqCst) > 0 {
            gate.add_permits(1 - gate.available_permits().min(1));
        } else if let Some(next) = bench.store.next_due().await.unwrap() {
            bench.clock.advance_to(next.min(bench.clock.now().after(2 * SECOND)));
        } else {
            break;
        }
    }
    over.store(true, Ordering::SeqCst);

    assert_eq!(bench.platform.most_inside.load(Ordering::SeqCst), 3);
    assert_eq!(bench.platform.begun().len(), 40, "each once");
    let rows = bench.engine.limit_statuses().await.unwrap();
    assert!(rows.iter().all(|row| row.permits.is_empty()), "{rows:?}");
}

/// A deferred task was not attempted: it is not counted, not in doubt, and not probed.
#[tokio::test]
async fn a_task_at_a_full_limit_is_deferred_and_woken_without_an_attempt() {
    let bench = Bench::new();
    bench.at_most(KEY, 1).await;
    bench.platform.on("first", [Reply::Gate]);
    bench.start(OneStep::of("a", "first")).await;
    let first = bench.begin(1).await;
    let second = bench.start(OneStep::of("a", "second")).await;
    for _ in 0..5 {
        bench.clock.advance(5 * SECOND);
        bench.engine.run_until_idle().await.unwrap();
    }
    assert_eq!(why(&bench, second), "cluster/eu-1: 1 of 1 in use, 0 before it");

    bench.platform.gate.as_ref().unwrap().add_permits(1);
    first.await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    let log = bench.platform.log.lock().unwrap().clone();
    assert_eq!(log, [("first".into(), 1, None), ("second".into(), 1, None)]);
    assert_eq!(bench.platform.probes.load(Ordering::SeqCst), 0);
    assert_eq!(bench.stands(second).await, "completed");
    assert_eq!(why(&bench, second), "");
}

/// S57, at a limited key.
#[tokio::test]
async fn a_flood_of_one_tenant_at_a_full_key_delays_another_tenant_by_one_place() {
    let bench = Bench::new();
    bench.at_most(KEY, 1).await;
    bench.platform.on("holder", [Reply::Gate]);
    bench.start(OneStep::of("a", "holder")).await;
    let holder = bench.begin(1).await;
    for n in 0..50 {
        bench.start(OneStep::of("a", &format!("a{n}"))).await;
    }
    bench.engine.run_until_idle().await.unwrap();
    let late = bench.start(OneStep::of("b", "b")).await;
    bench.engine.run_until_idle().await.unwrap();
    assert!(
        bench.engine.waiting_attempts(late)[0].reason.to_string().ends_with("1 before it"),
        "{}",
        why(&bench, late)
    );

    bench.platform.gate.as_ref().unwrap().add_permits(1);
    holder.await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    let begun = bench.platform.begun();
    assert!(begun.iter().position(|name| name == "b").unwrap() <= 2, "{begun:?}");
    assert_eq!(begun.len(), 52, "and the others are not forgotten");
}

/// S48.
#[tokio::test]
async fn a_queued_task_that_is_cancelled_never_starts_and_frees_its_place() {
    let bench = Bench::new();
    bench.at_most(KEY, 1).await;
    bench.platform.on("first", [Reply::Gate]);
    bench.start(OneStep::of("a", "first")).await;
    let first = bench.begin(1).await;
    let queued = bench.start(OneStep::of("a", "queued")).await;
    let behind = bench.start(OneStep::of("a", "behind")).await;
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(why(&bench, behind), "cluster/eu-1: 1 of 1 in use, 1 before it");

    bench.clock.advance(SECOND);
    bench.engine.cancel(queued, order()).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(why(&bench, behind), "cluster/eu-1: 1 of 1 in use, 0 before it");
    bench.platform.gate.as_ref().unwrap().add_permits(1);
    first.await.unwrap();
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.stands(queued).await, "cancelled");
    // The undo still runs, because the engine cannot prove that the action never ran. It tolerates that.
    assert_eq!(bench.platform.begun(), ["first", "behind", "undo queued"]);
}

/// HTTP 429 and 503 with Retry-After.
#[tokio::test]
async fn a_key_with_a_retry_after_is_closed_until_then() {
    let mut bench = Bench::new();
    let told = ActionError::pending("yard.crowded", SECOND).retry_after(90 * SECOND);
    bench.platform.on("first", [Reply::Fail(told)]);
    bench.start(OneStep::of("a", "first")).await;
    bench.engine.run_until_idle().await.unwrap();
    let elsewhere = OneStep { keys: vec!["cluster/eu-2".into()], ..OneStep::of("a", "elsewhere") };
    let barred = bench.start(OneStep::of("b", "second")).await;
    bench.start(elsewhere).await;
    bench.settle(89 * SECOND).await;
    // A key of the step, which all yards share, is closed too.
    assert_eq!(bench.platform.begun(), ["first"]);
    assert!(why(&bench, barred).contains("closed by Dig: yard.crowded"), "{}", why(&bench, barred));
    bench.engine = bench.another();
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.platform.begun(), ["first"], "a restart does not forget it");

    bench.settle(3 * SECOND).await;

    assert_eq!(bench.platform.begun().len(), 4);
    assert_eq!(bench.stands(barred).await, "completed");
    assert!(bench.engine.limit_statuses().await.unwrap().is_empty(), "no expired state is stored");
}

#[tokio::test]
async fn a_key_that_fails_repeatedly_is_paused_and_then_tried_once() {
    let bench = Bench::new();
    let breaker = Some(BreakerRule { after: 5, span: MINUTE, cap: 10 * MINUTE });
    bench.limit(Limit { breaker, ..Limit::for_key("cluster/*") }).await;
    let refused = || Reply::Fail(ActionError::transient("yard.unreachable", "told to"));
    let retry = RetryPolicy { attempts: 50, ..RetryPolicy::default() };
    let mut ids = Vec::new();
    for n in 0..5 {
        let name = format!("dig {n}");
        bench.platform.on(&name, [refused()]);
        let toil = OneStep { retry: retry.clone(), ..OneStep::of("a", &name) };
        ids.push(bench.start(toil).await);
    }
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.platform.begun().len(), 5, "each has failed once");
    let new = bench.start(OneStep::of("b", "new")).await;
    bench.settle(59 * SECOND).await;
    assert_eq!(bench.platform.begun().len(), 5, "and nothing has been tried since");
    assert_eq!(why(&bench, new), "cluster/eu-1: paused by its circuit breaker after 5 failures in a row");

    for n in 0..5 {
        bench.platform.on(&format!("dig {n}"), [refused()]);
    }
    bench.platform.on("new", [refused()]);
    bench.settle(2 * SECOND).await;
    assert_eq!(bench.platform.begun().len(), 6, "one attempt decides");
    bench.settle(MINUTE).await;
    assert_eq!(bench.platform.begun().len(), 6, "and the next span is longer");
    bench.platform.replies.lock().unwrap().clear();
    bench.settle(2 * MINUTE).await;

    for id in ids.into_iter().chain([new]) {
        assert_eq!(bench.stands(id).await, "completed");
    }
    let rows = bench.engine.limit_statuses().await.unwrap();
    assert!(rows.iter().all(|row| row.breaker == Breaker::default()), "{rows:?}");
}

/// Undos have the same keys. They wait as long as necessary, and none is dropped.
#[tokio::test]
async fn an_undo_waits_for_its_key_and_is_not_dropped() {
    let bench = Bench::new();
    bench.platform.on("end dig", [Reply::Fail(ActionError::permanent("yard.flooded", "told to"))]);
    let id = bench.start(OneStep::of("a", "dig")).await;
    bench.engine.work_next().await.unwrap();
    let closed = KeyClosure { until: None, why: "works on the fence".into(), by: "ada".into() };
    bench.engine.close_key(KEY, closed).await.unwrap().unwrap();
    bench.settle(30 * HOUR).await;
    assert_eq!(bench.platform.begun(), ["dig"]);
    assert!(why(&bench, id).contains("closed by ada: works on the fence"), "{}", why(&bench, id));

    assert!(bench.engine.open_key(KEY).await.unwrap());
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.platform.begun(), ["dig", "undo dig"]);
    assert_eq!(bench.stands(id).await, "rolled_back");
    assert!(!bench.engine.open_key(KEY).await.unwrap(), "there is nothing left to open");
}

#[tokio::test]
async fn an_undo_does_not_wait_for_a_rate() {
    let bench = Bench::new();
    let rate = Some(Rate { times: 1, per: HOUR, burst: 1 });
    bench.limit(Limit { rate, ..Limit::for_key(KEY) }).await;
    bench.platform.on("end dig", [Reply::Fail(ActionError::permanent("yard.flooded", "told to"))]);
    let id = bench.start(OneStep::of("a", "dig")).await;

    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.platform.begun(), ["dig", "undo dig"]);
    assert_eq!(bench.stands(id).await, "rolled_back");
}

#[tokio::test]
async fn an_operator_can_reset_a_breaker() {
    let bench = Bench::new();
    let breaker = Some(BreakerRule { after: 1, span: HOUR, cap: HOUR });
    bench.limit(Limit { breaker, ..Limit::for_key(KEY) }).await;
    bench.platform.on("dig", [Reply::Fail(ActionError::unknown("yard.silent", "told to"))]);
    let id = bench.start(OneStep::of("a", "dig")).await;
    bench.settle(MINUTE).await;
    let row = bench.engine.limit_statuses().await.unwrap().remove(0);
    assert!(matches!(row.breaker.state, BreakerState::Tripped { .. }), "{row:?}");
    assert_eq!(row.queued, 1);

    bench.engine.open_key(KEY).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(id).await, "completed");
}

#[tokio::test]
async fn attempts_start_at_the_rate_of_their_limit() {
    let bench = Bench::new();
    let rate = Some(Rate { times: 2, per: 10 * SECOND, burst: 3 });
    bench.limit(Limit { rate, ..Limit::for_key("cluster/*") }).await;
    for n in 0..8 {
        bench.start(OneStep::of("a", &format!("a{n}"))).await;
    }
    bench.start(OneStep { keys: vec!["cluster/eu-2".into()], ..OneStep::of("a", "other") }).await;

    let mut begun = Vec::new();
    for _ in 0..6 {
        bench.engine.run_until_idle().await.unwrap();
        begun.push(bench.platform.begun().len());
        bench.clock.advance(5 * SECOND);
    }
    assert_eq!(begun, [4, 5, 6, 7, 8, 9], "the other cluster has a separate rate");
}

/// S44: a paused execution does not release its own limits when it is resumed; the step still waits for its key.
#[tokio::test]
async fn a_held_step_stays_held_when_its_execution_is_resumed() {
    let bench = Bench::new();
    let closed = KeyClosure { until: None, by: "ops".into(), why: "maintenance".into() };
    bench.engine.close_key(KEY, closed).await.unwrap().unwrap();
    let job = bench.start(OneStep::of("a", "dig")).await;
    bench.engine.deliver(job, Event::PauseRequested(order())).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    bench.engine.deliver(job, Event::ResumeRequested(order())).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.platform.begun(), Vec::<String>::new(), "the key is still closed");
    bench.engine.open_key(KEY).await.unwrap();
    bench.clock.advance(HOUR);
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(bench.platform.begun(), ["dig"]);
}
