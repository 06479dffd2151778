//! Finding executions by their state and their obstacles, and sending one command to many of them.

use super::job::{Bench, Spec, does, permanent, requester, transient};
use engine::{
    BatchError, BatchRequest, BatchResult, BatchVerb, Batches, Clock as _, DAY, HOUR, MINUTE, Person, SECOND,
    Started, Verdict, parse_filter,
};
use store::ExecutionId;

async fn found(bench: &Bench, filter: &str) -> Vec<ExecutionId> {
    let query = parse_filter(filter, bench.clock.now()).unwrap_or_else(|misread| panic!("{misread}"));
    let found = bench.engine.search(&query, None, 100).await.unwrap();
    found.items.iter().map(|record| record.id).collect()
}

fn ask(verb: BatchVerb, filter: &str) -> BatchRequest {
    BatchRequest { verb, filter: filter.into(), tenant: None, cap: 100 }
}

/// Starts jobs that wait for a signal, half an hour apart.
async fn listening(bench: &Bench, count: usize) -> Vec<Started> {
    let mut jobs = Vec::new();
    for _ in 0..count {
        jobs.push(bench.start([Spec::Listen]).await);
        bench.engine.run_until_idle().await.unwrap();
        bench.clock.advance(SECOND);
    }
    jobs
}

#[tokio::test]
async fn an_execution_is_found_by_its_current_action_and_by_its_blocker() {
    let bench = Bench::new();
    bench.stage.on("do a", [transient()]);
    let job = bench.start([does(&["a", "b"]), Spec::Ask]).await;
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(found(&bench, "action = Do and error = stage.busy").await, [job.id]);
    bench.settle(MINUTE).await;
    assert_eq!(found(&bench, "error = stage.busy or has action").await, [], "the error is over");
    assert_eq!(found(&bench, "approver = boss and not has voted and stuck or asked = boss").await, [job.id]);

    let case = bench.engine.approval(job.id).await.unwrap().unwrap();
    let ada = Person::new("ada", ["boss"]);
    bench.engine.vote(job.id, &ada, Verdict::Approve, &case.digest, "yes").await.unwrap();
    assert_eq!(found(&bench, "approver = ada").await, [job.id]);
    let bob = Person::new("bob", ["boss"]);
    bench.engine.vote(job.id, &bob, Verdict::Refuse, &case.digest, "no").await.unwrap();
    bench.settle(MINUTE).await;
    assert_eq!(found(&bench, "finished and voted = bob and reason = refused").await, [job.id]);
    assert_eq!(found(&bench, "asked = boss").await, [], "no approval waits any more");
}

#[tokio::test]
async fn an_execution_is_found_by_its_failure_and_by_the_error_that_blocks_its_undo() {
    let bench = Bench::new();
    bench.stage.on("do b", [permanent()]);
    bench.stage.on("undo a 0", [permanent()]);
    let job = bench.start([does(&["a"]), does(&["b"])]).await;
    bench.settle(DAY).await;

    bench.clock.advance(MINUTE);
    assert_eq!(bench.stands(job).await.1, "parked");
    assert_eq!(found(&bench, "stuck and action = Undo and error = stage.broken").await, [job.id]);
    assert_eq!(found(&bench, "reason = compensation_blocked and age > 1s and idle < 2d").await, [job.id]);
    assert_eq!(found(&bench, "stuck and requested_by != requester").await, []);
}

#[tokio::test]
async fn a_batch_is_bound_to_its_preview() {
    let bench = Bench::new();
    listening(&bench, 3).await;
    let ask = ask(BatchVerb::Pause, "workflow = job and open");

    let seen = bench.engine.preview_batch(&ask).await.unwrap();
    assert_eq!((seen.count, seen.first.len(), seen.rejecting), (3, 3, 0));
    assert_eq!(bench.engine.preview_batch(&ask).await.unwrap().digest, seen.digest);
    listening(&bench, 1).await;
    let late = bench.engine.begin_batch(&ask, &seen.digest, "ops", "freeze", 10).await;
    let Err(BatchError::Changed(now)) = late else { panic!("{late:?}") };
    assert_eq!(now.count, 4);

    let few = BatchRequest { cap: 2, ..ask.clone() };
    assert!(matches!(bench.engine.preview_batch(&few).await, Err(BatchError::TooMany { cap: 2 })));
    let nobody = BatchRequest { filter: "tenant = nobody".into(), ..ask.clone() };
    assert!(matches!(bench.engine.preview_batch(&nobody).await, Err(BatchError::NoExecutions)));
    let all = BatchRequest { filter: "  ".into(), ..ask.clone() };
    assert!(matches!(bench.engine.preview_batch(&all).await, Err(BatchError::EmptyFilter)));
    let foreign = BatchRequest { tenant: Some("other".into()), ..ask };
    assert!(matches!(bench.engine.preview_batch(&foreign).await, Err(BatchError::NoExecutions)));
}

/// The batch worker may die between any two commands, or run twice at once: each execution receives its command once.
#[tokio::test]
async fn each_execution_of_a_batch_gets_its_command_once_at_the_requested_rate() {
    let bench = Bench::new();
    let jobs = listening(&bench, 6).await;
    bench.engine.deliver(jobs[1].id, pause("somebody")).await.unwrap();
    let ask = ask(BatchVerb::Pause, "workflow = job");
    let seen = bench.engine.preview_batch(&ask).await.unwrap();
    assert_eq!(seen.rejecting, 1, "one is already paused");

    let batch = bench.engine.begin_batch(&ask, &seen.digest, "ops", "freeze", 2).await.unwrap();
    let again = bench.engine.begin_batch(&ask, &seen.digest, "ops", "freeze", 2).await.unwrap();
    assert_eq!(again.id, batch.id, "a repeated request runs one batch");
    let mut other = Batches::default();
    for turn in 1.. {
        // A worker without any memory of earlier rounds.
        let mut fresh = Batches::default();
        let (one, two) = tokio::join!(fresh.work(&bench.engine), other.work(&bench.engine));
        let next = bench.engine.batch(&batch.id).await.unwrap().unwrap().next;
        assert!(next <= 2 * turn, "{next} in turn {turn}");
        let Some(due) = one.unwrap().or(two.unwrap()) else { break };
        bench.clock.advance_to(due);
    }

    let ended = bench.engine.batch(&batch.id).await.unwrap().unwrap();
    assert_eq!((ended.state(), ended.done, ended.refused, ended.skipped), ("done", 5, 1, 0));
    let items = bench.engine.batch_items(&batch.id, None, 100).await.unwrap().items;
    for (job, item) in jobs.iter().zip(&items) {
        assert_eq!(item.execution, job.id);
        let refused = job.id == jobs[1].id;
        assert_eq!(item.result, Some(if refused { BatchResult::Refused } else { BatchResult::Done }));
        let events = bench.events(*job).await;
        assert_eq!(events.iter().filter(|event| *event == "pause_requested").count(), 1, "{events:?}");
    }
    let journal = bench.engine.journal(jobs[0].id).await.unwrap();
    let told = journal.iter().find(|entry| entry.event == "pause_requested").unwrap();
    let detail = String::from_utf8_lossy(&told.detail);
    assert_eq!(told.actor, "ops");
    assert!(detail.contains(&format!("batch {}: freeze", batch.id)), "{detail}");
    assert_eq!(Batches::default().work(&bench.engine).await.unwrap(), None, "no command remains");
}

/// Two workers on the same batch count each execution once in total.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_that_run_one_batch_give_each_command_once() {
    let bench = Bench::new();
    let jobs = listening(&bench, 80).await;
    let ask = ask(BatchVerb::Pause, "workflow = job");
    let seen = bench.engine.preview_batch(&ask).await.unwrap();
    let batch = bench.engine.begin_batch(&ask, &seen.digest, "ops", "freeze", 1_000).await.unwrap();
    let both = [(), ()].map(|()| {
        let engine = bench.engine.clone();
        tokio::spawn(async move {
            let mut batches = Batches::default();
            while let Some(due) = batches.work(&engine).await.unwrap() {
                while engine.clock().now() < due {
                    tokio::task::yield_now().await;
                }
            }
        })
    });
    while !both.iter().all(tokio::task::JoinHandle::is_finished) {
        bench.clock.advance(std::time::Duration::from_millis(20));
        tokio::task::yield_now().await;
    }
    for one in both {
        one.await.unwrap();
    }

    let ended = bench.engine.batch(&batch.id).await.unwrap().unwrap();
    assert_eq!((ended.done, ended.refused, ended.skipped, ended.next), (80, 0, 0, 80));
    for job in jobs {
        let paused = bench.events(job).await.into_iter().filter(|event| event == "pause_requested");
        assert_eq!(paused.count(), 1);
    }
}

#[tokio::test]
async fn a_batch_skips_an_execution_that_no_longer_matches() {
    let bench = Bench::new();
    let jobs = listening(&bench, 3).await;
    let ask = ask(BatchVerb::Cancel, "open and state = First");
    let seen = bench.engine.preview_batch(&ask).await.unwrap();
    let batch = bench.engine.begin_batch(&ask, &seen.digest, "ops", "tidy", 1).await.unwrap();
    let mut batches = Batches::default();
    batches.work(&bench.engine).await.unwrap();
    bench.engine.signal(jobs[1].id, "go").await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    bench.clock.advance(SECOND);
    batches.work(&bench.engine).await.unwrap();
    let stopped = bench.engine.stop_batch(&batch.id, "eve", None).await.unwrap().unwrap();
    bench.clock.advance(HOUR);
    assert_eq!(batches.work(&bench.engine).await.unwrap(), None);

    assert_eq!((stopped.state(), stopped.done, stopped.skipped, stopped.next), ("stopped", 1, 1, 2));
    assert_eq!(bench.stands(jobs[0]).await.2.as_deref(), Some("cancelled"));
    assert_eq!(bench.stands(jobs[1]).await.2.as_deref(), Some("completed"));
    assert_eq!(bench.stands(jobs[2]).await.1, "forward", "it was never its turn");
}

fn pause(by: &str) -> engine::Event {
    engine::Event::PauseRequested(engine::Attribution { by: by.into(), reason: String::new() })
}

/// A requester may label an execution, and finds it by that label for as long as it exists.
#[tokio::test]
async fn a_label_stays_with_its_execution() {
    let bench = Bench::new();
    let request = engine::Request::by(&requester()).with_label("team=ml").with_label("ticket=4711");
    let job = bench.engine.start(super::job::Job::of([does(&["a"])]), request).await.unwrap();
    assert_eq!(found(&bench, "label = 'team=ml' and open").await, [job.id]);
    bench.settle(MINUTE).await;
    assert_eq!(found(&bench, "label ~ ticket and finished").await, [job.id]);
    assert_eq!(found(&bench, "label = 'team=other'").await, []);
}
