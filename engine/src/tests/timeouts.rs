//! Retries end by their policy, and a failure names the time limit that was reached.

use crate::tests::one_step::{Bench, FakePlatform, OneStep, Reply};
use crate::{
    ActionError, Clock as _, Engine, HOUR, MINUTE, ManualClock, Options, Person, Request, RetryPolicy,
    SECOND, TimeLimit, TimedOut,
    testing::{CrashPoint, CrashStore},
};
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use store::{Memory, Store as _, Timestamp};

fn busy() -> Reply {
    Reply::Fail(ActionError::transient("yard.busy", "told to"))
}

fn timed_out(limit: TimeLimit, attempt: u32) -> Option<TimedOut> {
    Some(TimedOut { limit, attempt })
}

/// S15. A budget of 3 s and waits of 2 s: the second attempt fails, and there is no third.
#[tokio::test]
async fn no_attempt_is_scheduled_that_would_begin_past_the_budget() {
    let bench = Bench::new();
    bench.platform.on("dig", vec![busy(); 9]);
    let retry = RetryPolicy { first: 2 * SECOND, factor: 1, budget: 3 * SECOND, ..RetryPolicy::default() };

    let id = bench.start(OneStep { retry, ..OneStep::of("acme", "dig") }).await;
    bench.engine.run_until_idle().await.unwrap();
    bench.clock.advance(2 * SECOND);
    bench.engine.run_until_idle().await.unwrap();

    let dug = bench.platform.begun().iter().filter(|name| *name == "dig").count();
    assert_eq!(dug, 2);
    let cause = bench.cause(id).await;
    assert_eq!((cause.code.as_str(), cause.timed_out), ("yard.busy", timed_out(TimeLimit::Budget, 2)));
}

/// S15. Polling ends with the budget too, and the failure names the budget.
#[tokio::test]
async fn polling_ends_with_the_budget() {
    let bench = Bench::new();
    bench.platform.on("dig", vec![Reply::Fail(ActionError::pending("yard.digging", 2 * SECOND)); 9]);
    let retry = RetryPolicy { budget: 5 * SECOND, ..RetryPolicy::default() };

    let id = bench.start(OneStep { retry, ..OneStep::of("acme", "dig") }).await;
    bench.settle(MINUTE).await;

    let dug = bench.platform.begun().iter().filter(|name| *name == "dig").count();
    assert_eq!(dug, 3);
    assert_eq!(bench.cause(id).await.timed_out, timed_out(TimeLimit::Budget, 0));
}

/// S16. The limit of an attempt.
#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_fails_with_its_number_and_its_last_note() {
    let bench = Bench::new();
    bench.platform.on("dig", [busy(), Reply::Say("half way"), Reply::Hang]);

    let id = bench.start(OneStep { attempt_within: 20 * SECOND, ..OneStep::of("acme", "dig") }).await;
    bench.engine.run_until_idle().await.unwrap();
    bench.clock.advance(SECOND);
    bench.engine.run_until_idle().await.unwrap();

    let failure = bench.cause(id).await;
    assert_eq!(failure.code, "attempt.timeout");
    assert_eq!(failure.timed_out, timed_out(TimeLimit::Attempt, 2));
    assert_eq!(failure.beat.as_deref(), Some("half way"));
}

/// S16. The heartbeat limit, also if it is longer than the renewal interval of the lease, which must not restart it.
#[tokio::test(start_paused = true)]
async fn an_attempt_without_heartbeats_fails_with_its_number_and_its_last_note() {
    for silence in [2 * SECOND, 25 * SECOND, 10 * MINUTE] {
        let bench = Bench::new();
        bench.platform.on("dig", [Reply::Say("half way"), Reply::Hang]);
        let toil =
            OneStep { heartbeat: Some(silence), attempt_within: 10 * HOUR, ..OneStep::of("acme", "dig") };
        let begun = tokio::time::Instant::now();

        let id = bench.start(toil).await;
        bench.engine.run_until_idle().await.unwrap();

        let failure = bench.cause(id).await;
        assert_eq!(failure.code, "attempt.silent");
        assert_eq!(failure.timed_out, timed_out(TimeLimit::Heartbeat, 1));
        assert_eq!(failure.beat.as_deref(), Some("half way"));
        assert!(begun.elapsed() < silence + SECOND, "{:?}", begun.elapsed());
    }
}

/// S16. The heartbeat limit counts from the last heartbeat.
#[tokio::test(start_paused = true)]
async fn an_attempt_with_heartbeats_may_take_longer_than_the_heartbeat_limit() {
    let bench = Bench::new();
    let slow =
        ["1 of 4", "2 of 4", "3 of 4", "4 of 4"].map(|said| [Reply::Take(3 * SECOND), Reply::Say(said)]);
    bench.platform.on("dig", slow.into_iter().flatten());

    let id = bench.start(OneStep { heartbeat: Some(4 * SECOND), ..OneStep::of("acme", "dig") }).await;
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(id).await, "completed");
    assert_eq!(bench.platform.begun(), ["dig"]);
}

/// S16. The deadline of the state.
#[tokio::test]
async fn a_state_past_its_deadline_fails_with_its_attempts_and_the_last_note() {
    let bench = Bench::new();
    bench.platform.on("dig", [Reply::Say("half way"), busy()]);
    bench.platform.on("dig", vec![busy(); 30]);
    let retry = RetryPolicy { first: 40 * SECOND, cap: HOUR, attempts: 30, ..RetryPolicy::default() };

    let id = bench.start(OneStep { retry, within: 2 * MINUTE, ..OneStep::of("acme", "dig") }).await;
    bench.settle(HOUR).await;

    let cause = bench.cause(id).await;
    let attempts = bench.platform.begun().iter().filter(|name| *name == "dig").count();
    assert_eq!(cause.code, "step.deadline");
    assert_eq!(cause.timed_out, timed_out(TimeLimit::State, u32::try_from(attempts).unwrap()));
    assert_eq!(cause.beat.as_deref(), Some("half way"), "kept though later attempts said nothing");
}

/// S17.
#[tokio::test]
async fn later_attempts_get_the_last_note_of_an_attempt() {
    let bench = Bench::new();
    bench
        .platform
        .on("dig", [Reply::Say("1 of 3"), Reply::Say("2 of 3"), busy(), busy(), Reply::Say("3 of 3")]);

    bench.start(OneStep::of("acme", "dig")).await;
    bench.settle(MINUTE).await;

    let said: Vec<_> =
        bench.platform.log.lock().unwrap().iter().map(|(_, n, said)| (*n, said.clone())).collect();
    let two = Some("2 of 3".to_owned());
    assert_eq!(said, [(1, None), (2, two.clone()), (3, two)]);
}

/// S19.
#[tokio::test]
async fn a_code_that_the_policy_never_retries_is_attempted_once_whatever_its_class() {
    let classes = [
        ActionError::transient("yard.gone", "told to"),
        ActionError::pending("yard.gone", SECOND),
        ActionError::permanent("yard.gone", "told to"),
    ];
    for error in classes {
        let bench = Bench::new();
        bench.platform.on("dig", vec![Reply::Fail(error.clone()); 9]);
        let retry = RetryPolicy { never: vec!["yard.gone".into()], ..RetryPolicy::default() };

        let id = bench.start(OneStep { retry, ..OneStep::of("acme", "dig") }).await;
        bench.settle(HOUR).await;

        let dug = bench.platform.begun().iter().filter(|name| *name == "dig").count();
        assert_eq!(dug, 1, "{error:?}");
        assert_eq!(bench.cause(id).await.timed_out, None);
    }
}

/// A retry after `retry_after` never comes earlier, even if its policy waits less and an operator has opened the
/// closed keys.
#[tokio::test]
async fn a_retry_waits_for_its_retry_after() {
    let bench = Bench::new();
    let told = ActionError::transient("yard.crowded", "told to").retry_after(90 * SECOND);
    bench.platform.on("dig", [Reply::Fail(told)]);
    let id = bench.start(OneStep::of("acme", "dig")).await;
    bench.engine.run_until_idle().await.unwrap();
    for key in ["cluster/eu-1", "yard/all"] {
        assert!(bench.engine.open_key(key).await.unwrap());
    }

    bench.settle(89 * SECOND).await;
    assert_eq!(bench.platform.begun().len(), 1);
    bench.settle(Duration::from_secs(2)).await;

    assert_eq!(bench.platform.begun().len(), 2);
    assert_eq!(bench.stands(id).await, "completed");
}

/// An engine without its store gives up its attempts before another engine may take them.
#[tokio::test(start_paused = true)]
async fn an_attempt_whose_lease_cannot_be_renewed_is_given_up_before_it_expires() {
    let hanging = async |store: Arc<CrashStore>| {
        let (clock, yard) =
            (Arc::new(ManualClock::starting_at(Timestamp(1_000_000))), Arc::new(FakePlatform::default()));
        yard.on("dig", [Reply::Hang]);
        let engine = Engine::new(store.clone(), clock, yard.clone()).with_workflow::<OneStep>().unwrap();
        let request = Request::by(&Person::new("ada", ["ops"]));
        engine.start(OneStep::of("acme", "dig"), request).await.unwrap();
        let working = engine.clone();
        tokio::spawn(async move { working.work_next().await.unwrap() });
        while yard.inside.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        (engine, yard)
    };
    let tried = Arc::new(CrashStore::new(Arc::new(Memory::new()), None));
    hanging(tried.clone()).await;
    let next = CrashPoint::Before(tried.commits() + 1);
    let store = Arc::new(CrashStore::new(Arc::new(Memory::new()), Some(next)));
    let (engine, yard) = hanging(store.clone()).await;

    tokio::time::sleep(2 * MINUTE).await;
    assert_eq!(yard.inside.load(Ordering::SeqCst), 1, "it continues while the store answers");
    let request = Request::by(&Person::new("ada", ["ops"]));
    engine.start(OneStep::of("acme", "other"), request).await.unwrap_err();
    assert!(store.is_dead());

    let lease = Options::default().lease;
    tokio::time::sleep(lease / 2).await;
    assert_eq!(yard.inside.load(Ordering::SeqCst), 1, "the store may answer again");
    tokio::time::sleep(lease / 2 - SECOND).await;
    assert_eq!(yard.inside.load(Ordering::SeqCst), 0, "it stopped before another worker got the lease");
}

/// S08. A slow store takes time to commit. A result that waits for its commit must not be repeated.
#[tokio::test(start_paused = true)]
async fn a_result_that_waits_for_its_commit_is_not_repeated() {
    let bench = Bench::new();
    let lease = Options::default().lease;
    let slow = Arc::new(CrashStore::new(bench.store.clone(), None).with_delay(lease * 3));
    let engine =
        Engine::new(slow, bench.clock.clone(), bench.platform.clone()).with_workflow::<OneStep>().unwrap();
    let id = bench.start(OneStep::of("acme", "dig")).await;

    let working = tokio::spawn(async move { engine.run_until_idle().await.unwrap() });
    let mut taken = 0;
    while !working.is_finished() {
        tokio::time::sleep(lease / 12).await;
        bench.clock.advance(lease / 12);
        let now = bench.clock.now();
        taken += bench.store.lease("another", now, lease, 9).await.unwrap().len();
    }

    assert_eq!(taken, 0);
    assert_eq!(bench.stands(id).await, "completed");
    assert_eq!(bench.platform.begun(), ["dig"]);
}

async fn refusals(bench: &Bench) -> usize {
    let history = bench.store.history(None, 1_000).await.unwrap().items;
    history.iter().filter(|(_, entry)| entry.event == "fenced").count()
}

/// If the store is unavailable, a given-up attempt must be returned at once, and the history must not show a refused
/// result.
#[tokio::test(start_paused = true)]
async fn a_given_up_task_without_a_new_owner_is_returned_without_a_refusal_in_the_history() {
    let bench = Bench::new();
    bench.platform.on("dig", [Reply::Hang]);
    let id = bench.start(OneStep::of("acme", "dig")).await;
    let working = bench.begin(1).await;

    tokio::time::advance(Options::default().lease).await;
    working.await.unwrap();

    assert_eq!(bench.platform.inside.load(Ordering::SeqCst), 0, "it was given up");
    assert_eq!(refusals(&bench).await, 0);
    bench.settle(2 * SECOND).await;
    assert_eq!(bench.platform.probes.load(Ordering::SeqCst), 1, "the next attempt probes first");
    assert_eq!(bench.stands(id).await, "completed");
}

/// A process stalls for longer than its lease, and another does its work meanwhile.
#[tokio::test(start_paused = true)]
async fn a_stalled_worker_that_lost_its_task_records_it_in_the_history() {
    let bench = Bench::new();
    bench.platform.on("dig", [Reply::Hang]);
    let id = bench.start(OneStep::of("acme", "dig")).await;
    let working = bench.begin(1).await;
    bench.clock.advance(Options::default().lease);
    bench.another().run_until_idle().await.unwrap();
    assert_eq!(bench.stands(id).await, "completed");

    tokio::time::advance(Options::default().lease).await;
    working.await.unwrap();

    assert_eq!(refusals(&bench).await, 1);
}
