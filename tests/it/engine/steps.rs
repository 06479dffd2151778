//! Retries, timeouts, unknown outcomes, fan-out and compensation.

use super::job::{Bench, Reply, Spec, does, permanent, transient};
use engine::{ActionError, Attribution, DAY, HOUR, MINUTE, Probe, SECOND};
use serde_json::Value;

fn order() -> Attribution {
    Attribution { by: "olga".into(), reason: "because".into() }
}

#[tokio::test]
async fn a_failure_undoes_all_work_in_reverse_order_including_the_failed_step() {
    let bench = Bench::new();
    bench.stage.on("do c", [permanent()]);
    let job = bench.start([does(&["a"]), does(&["b"]), does(&["c"])]).await;

    bench.settle(DAY).await;

    assert_eq!(bench.stage.log(), ["do a", "do b", "undo c 2", "undo b 1", "undo a 0"]);
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("rolled_back"));
}

/// S29: an action that ran three times is undone three times, each with the values of its time.
#[tokio::test]
async fn three_repetitions_of_an_action_are_undone_three_times_with_their_own_arguments() {
    let bench = Bench::new();
    bench.stage.on("do z", [permanent()]);
    bench.start([does(&["a"]), does(&["a"]), does(&["a"]), does(&["z"])]).await;

    bench.settle(DAY).await;

    let undone: Vec<_> = bench.stage.log().into_iter().filter(|line| line.starts_with("undo a")).collect();
    assert_eq!(undone, ["undo a 2", "undo a 1", "undo a 0"]);
    let keys = bench.stage.keys.lock().unwrap().clone();
    let undos: std::collections::BTreeSet<_> =
        keys.iter().filter(|(key, _)| key.ends_with("/undo")).collect();
    assert_eq!(undos.len(), 4, "each has its own key: {undos:?}");
}

/// Facts learned after the start of an action must not change its undo.
#[tokio::test]
async fn an_undo_gets_the_arguments_of_its_action() {
    let bench = Bench::new();
    bench.stage.on("do d", [permanent()]);
    bench.start([does(&["a"]), does(&["b"]), does(&["c"]), does(&["d"])]).await;

    bench.settle(DAY).await;

    let undone: Vec<_> = bench.stage.log().into_iter().filter(|line| line.starts_with("undo")).collect();
    assert_eq!(undone, ["undo d 3", "undo c 2", "undo b 1", "undo a 0"]);
}

/// S18, S20: the counter is stored in the record, and the last failure has no wait.
#[tokio::test]
async fn a_transient_failure_is_retried_with_the_same_key_until_no_attempt_is_left() {
    let bench = Bench::new();
    bench.stage.on("do a", [transient(), transient(), transient()]);
    let job = bench.start([does(&["a"])]).await;

    bench.settle(DAY).await;

    let keys = bench.stage.keys.lock().unwrap().clone();
    let (undo, tries): (Vec<_>, Vec<_>) = keys.into_iter().partition(|(key, _)| key.ends_with("/undo"));
    assert_eq!(tries.iter().map(|(_, attempt)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(tries.iter().all(|(key, _)| *key == tries[0].0));
    assert_eq!(undo.len(), 1);
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("rolled_back"));
}

/// S28.
#[tokio::test]
async fn a_step_compensates_only_after_all_its_slots_have_settled() {
    let bench = Bench::new();
    bench.stage.on("do a", [permanent()]);
    bench.stage.on("do b", [transient()]);
    bench.start([does(&["a", "b"])]).await;

    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(
        bench.stage.log(),
        Vec::<String>::new(),
        "b waits for its retry, and a is not undone meanwhile"
    );
    bench.settle(DAY).await;

    assert_eq!(bench.stage.log()[0], "do b");
    assert_eq!(bench.stage.log().len(), 3);
}

#[tokio::test]
async fn a_fan_out_runs_at_most_its_limit_of_slots_at_once() {
    let bench = Bench::new();
    let names: Vec<String> = (0..40).map(|n| format!("n{n}")).collect();
    let job = bench.start([Spec::Do(names)]).await;

    assert_eq!(
        bench.engine.store().tasks(job.id).await.unwrap().len(),
        16 + 1,
        "sixteen slots and the deadline"
    );
    bench.settle(DAY).await;

    assert_eq!(bench.stage.log().len(), 40);
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
}

#[tokio::test]
async fn a_pending_action_is_polled_and_uses_no_attempt() {
    let bench = Bench::new();
    let pending = || Reply::Fail(ActionError::pending("stage.working", 30 * SECOND));
    bench.stage.on("do a", (0..20).map(|_| pending()));
    let job = bench.start([does(&["a"])]).await;

    bench.settle(HOUR).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_without_an_answer_is_probed_and_not_repeated() {
    let bench = Bench::new();
    bench.stage.on("do a", [Reply::Hang]);
    bench.stage.probes.lock().unwrap().entry("a".into()).or_default().push_back(Probe::Done("a".into()));
    let job = bench.start([does(&["a"])]).await;

    bench.settle(HOUR).await;

    assert_eq!(bench.stage.log(), ["do a"]);
    assert!(bench.events(job).await.contains(&"probed".to_owned()));
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
}

#[tokio::test]
async fn a_panic_is_a_permanent_error_of_its_action_only() {
    let bench = Bench::new();
    bench.stage.on("do b", [Reply::Panic]);
    let job = bench.start([does(&["a"]), does(&["b"])]).await;

    bench.settle(DAY).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("rolled_back"));
    let (_, shown) = bench.engine.execution(job.id).await.unwrap();
    assert_eq!(shown.body["phase"]["finished"]["cause"]["code"], "action.panicked");
}

#[tokio::test]
async fn a_state_that_times_out_compensates_without_waiting_for_the_next_attempt() {
    let bench = Bench::new();
    bench.stage.on("do b", (0..500).map(|_| Reply::Fail(ActionError::pending("stage.working", 5 * HOUR))));
    let job = bench.start([does(&["a"]), does(&["b"])]).await;

    bench.settle(7 * HOUR).await;

    let (_, shown) = bench.engine.execution(job.id).await.unwrap();
    assert_eq!(shown.body["phase"]["finished"]["cause"]["code"], "step.deadline");
    assert_eq!(bench.stage.log(), ["do a", "undo b 1", "undo a 0"]);
}

#[tokio::test]
async fn an_undo_that_fails_permanently_parks_with_every_error_and_continues_after_a_retry() {
    let bench = Bench::new();
    bench.stage.on("do c", [permanent()]);
    bench.stage.on("undo a 0", [permanent()]);
    bench.stage.on("undo b 0", [permanent()]);
    let job = bench.start([does(&["a", "b", "x"]), does(&["c"])]).await;

    bench.settle(DAY).await;

    assert_eq!(
        bench.stands(job).await,
        ("Second".into(), "parked".into(), Some("compensation_blocked".into()))
    );
    let (_, shown) = bench.engine.execution(job.id).await.unwrap();
    assert_eq!(
        shown.body["phase"]["parked"]["errors"].as_array().unwrap().len(),
        2,
        "no error hides another one"
    );
    assert!(bench.stage.log().contains(&"undo x 0".to_owned()), "independent siblings are undone");

    bench.engine.deliver(job.id, engine::Event::RetryRequested(order())).await.unwrap();
    bench.settle(DAY).await;
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("rolled_back"));
}

#[tokio::test]
async fn past_the_pivot_a_cancel_is_refused_and_a_failure_parks() {
    let bench = Bench::new();
    bench.stage.on("do c", [permanent()]);
    let job = bench.start([does(&["a"]), Spec::Commit("b".into()), Spec::Commit("c".into())]).await;

    bench.settle(DAY).await;

    assert_eq!(bench.stands(job).await, ("Third".into(), "parked".into(), Some("past_pivot_failure".into())));
    let refused = bench.engine.cancel(job.id, order()).await.unwrap_err().to_string();
    assert_eq!(refused, "the execution is past its point of no return (Second) and can only go forward");
    bench.engine.deliver(job.id, engine::Event::RetryRequested(order())).await.unwrap();
    bench.settle(DAY).await;
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
    assert!(!bench.stage.log().iter().any(|line| line.starts_with("undo")));
}

/// S32.
#[tokio::test]
async fn a_termination_lists_the_work_that_is_not_undone() {
    let bench = Bench::new();
    let job = bench.start([does(&["a"]), Spec::Listen]).await;
    bench.settle(MINUTE).await;

    bench.engine.deliver(job.id, engine::Event::TerminateRequested(order())).await.unwrap();

    let (record, shown) = bench.engine.execution(job.id).await.unwrap();
    assert_eq!(record.reason.as_deref(), Some("terminated"));
    let leaks = shown.body["phase"]["finished"]["leaks"].as_array().unwrap().clone();
    assert_eq!(
        (leaks.len(), &leaks[0]["action"], &leaks[0]["output"]),
        (1, &Value::from("Do"), &Value::from("a"))
    );
}

/// S41: running work ends and is kept, and no new work starts. Also covers S42 and S43.
#[tokio::test]
async fn a_pause_lets_running_attempts_finish_and_starts_no_new_ones() {
    let bench = Bench::new();
    bench.stage.on("do a", [transient()]);
    let job = bench.start([does(&["a"]), does(&["b"])]).await;
    bench.engine.run_until_idle().await.unwrap();

    let pause = || engine::Event::PauseRequested(order());
    bench.engine.deliver(job.id, pause()).await.unwrap();
    assert_eq!(
        bench.engine.deliver(job.id, pause()).await.unwrap_err().to_string(),
        "the execution is already paused"
    );
    bench.settle(HOUR).await;
    assert_eq!(bench.stage.log(), Vec::<String>::new());
    assert_eq!(bench.stands(job).await.1, "paused");
    bench.engine.deliver(job.id, engine::Event::ResumeRequested(order())).await.unwrap();
    bench.settle(DAY).await;
    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
}

/// A worker died during an action that must not be repeated without a probe, and then an operator paused the execution.
#[tokio::test]
async fn an_unknown_outcome_stays_unknown_through_a_pause() {
    let bench = Bench::new();
    bench.stage.probes.lock().unwrap().entry("a".into()).or_default().push_back(Probe::Done("a".into()));
    let job = bench.start([does(&["a"])]).await;
    bench.lose_a_worker().await;
    bench.engine.deliver(job.id, engine::Event::PauseRequested(order())).await.unwrap();
    bench.settle(HOUR).await;

    bench.engine.deliver(job.id, engine::Event::ResumeRequested(order())).await.unwrap();
    bench.settle(HOUR).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
    assert_eq!(
        bench.stage.log(),
        Vec::<String>::new(),
        "the probe found the effect, and it was not sent again"
    );
}

#[tokio::test]
async fn a_cancel_ends_a_pause_and_starts_the_compensation() {
    let bench = Bench::new();
    let job = bench.start([does(&["a"]), Spec::Listen]).await;
    bench.settle(MINUTE).await;
    bench.engine.deliver(job.id, engine::Event::PauseRequested(order())).await.unwrap();

    bench.engine.cancel(job.id, order()).await.unwrap();
    bench.settle(DAY).await;

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("cancelled"));
    assert_eq!(bench.stage.log(), ["do a", "undo a 0"]);
}

/// S39, S40.
#[tokio::test]
async fn an_early_signal_is_kept_and_counts_once() {
    let bench = Bench::new();
    let job = bench.start([Spec::Sleep, Spec::Listen, Spec::Listen]).await;
    bench.engine.signal(job.id, "go").await.unwrap();
    bench.engine.signal(job.id, "go").await.unwrap();

    bench.settle(2 * HOUR).await;

    assert_eq!(bench.stands(job).await.0, "Third", "one wait is over, the next one continues");
}

#[tokio::test]
async fn a_retry_command_ends_the_wait_for_the_next_attempt() {
    let bench = Bench::new();
    bench.stage.on("do a", [Reply::Fail(ActionError::pending("stage.working", HOUR))]);
    let job = bench.start([does(&["a"])]).await;
    bench.engine.run_until_idle().await.unwrap();

    bench.engine.deliver(job.id, engine::Event::RetryRequested(order())).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(job).await.2.as_deref(), Some("completed"));
}
