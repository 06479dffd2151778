//! The messages of a commit to other executions: signals and starts are sent once, and only with the commit.

use super::{
    household::{Way, bench, house, job},
    job::{Bench, Job, Spec, does, requester},
};
use engine::{ActionError, Engine, Entity, HOUR, Options, Request, Undecided, View};
use serde::{Deserialize, Serialize};
use std::{sync::Arc, time::Duration};
use store::{ExecutionId, Filter, Store as _};

#[derive(Clone, Serialize, Deserialize)]
struct Free {
    gpus: u32,
}
impl Entity for Free {
    const COLLECTION: &'static str = "free";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;
    fn id(&self) -> String {
        "one".into()
    }
}

/// Frees a GPU, and signals the execution that waits for it.
fn free(view: &mut View, waiter: ExecutionId) -> Result<u32, Undecided> {
    let gpus = view.get::<Free>("one")?.map_or(0, |free| free.gpus) + 1;
    view.put(&Free { gpus })?;
    view.signal(waiter, "go");
    if gpus > 2 {
        return Err(ActionError::permanent("free.too_many", "there were two").into());
    }
    Ok(gpus)
}

#[tokio::test]
async fn a_waiting_execution_is_woken_by_the_commit_that_frees_its_resource() {
    let bench = bench();
    let waiting = bench.start([Spec::Listen]).await;

    bench.engine.transact(true, |view| free(view, waiting.id)).await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(waiting).await.2.as_deref(), Some("completed"));
}

#[tokio::test]
async fn a_dry_run_or_a_refused_decision_wakes_no_execution() {
    let bench = bench();
    let waiting = bench.start([Spec::Listen]).await;

    bench.engine.transact(false, |view| free(view, waiting.id)).await.unwrap();
    let other = bench.start([Spec::Sleep]).await;
    for _ in 0..2 {
        bench.engine.transact(true, |view| free(view, other.id)).await.unwrap();
    }
    bench.engine.transact(true, |view| free(view, waiting.id)).await.unwrap_err();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(waiting).await.0, "First");
}

#[tokio::test]
async fn both_signals_of_one_decision_arrive_and_one_without_a_receiver_is_dropped() {
    let bench = bench();
    let nobody = ExecutionId::from_bytes([7; 16]);
    let listening = bench.start([Spec::Listen]).await;

    let told = bench.engine.transact(true, |view| {
        view.signal(listening.id, "other");
        view.signal(listening.id, "go");
        view.signal(nobody, "go");
        Ok(())
    });
    told.await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stands(listening).await.2.as_deref(), Some("completed"));
    assert!(bench.events(listening).await.iter().filter(|event| *event == "signalled").count() == 2);
    assert_eq!(bench.store.tasks(nobody).await.unwrap(), vec![]);
}

async fn jobs_of(bench: &Bench) -> usize {
    bench.engine.list(&Filter::default(), None, 100).await.unwrap().items.len()
}

#[tokio::test]
async fn a_decision_starts_an_execution_once_for_its_key() {
    let bench = bench();
    let ask = || {
        bench
            .engine
            .transact(true, |view| view.start(&Job::of([does(&["a"])]), "the planner", "reclaim/demand-1"))
    };

    ask().await.unwrap();
    ask().await.unwrap();
    bench.engine.run_until_idle().await.unwrap();
    ask().await.unwrap();
    bench.engine.run_until_idle().await.unwrap();

    assert_eq!(bench.stage.log(), ["do a"]);
    assert_eq!(jobs_of(&bench).await, 1);
}

#[tokio::test]
async fn an_execution_started_by_a_decision_waits_for_its_guard() {
    let bench = bench();
    let guarded = |steps| Job { guard: Some("the kitchen".into()), ..Job::of([steps]) };
    let holder = bench.engine.start(guarded(Spec::Listen), Request::by(&requester())).await.unwrap();
    let start = bench.engine.transact(true, |view| view.start(&guarded(does(&["a"])), "the planner", "key"));
    start.await.unwrap();
    bench.engine.run_until_idle().await.unwrap();
    assert_eq!(jobs_of(&bench).await, 1);

    bench.engine.signal(holder.id, "go").await.unwrap();
    bench.settle(HOUR).await;

    assert_eq!(bench.stage.log(), ["do a"]);
}

/// The clock does not move, so a parent that misses its child's end would wait without limit.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_end_of_a_child_is_missed_by_two_concurrent_engines() {
    let bench = bench();
    let engines = (0..2).map(|n| {
        bench.engine.clone().with_options(Options { holder: format!("engine {n}"), ..Options::default() })
    });
    let stop = Arc::new(tokio::sync::Notify::new());
    let running: Vec<_> = engines
        .map(|engine: Engine<_>| {
            let stop = stop.clone();
            tokio::spawn(async move { engine.run(async move { stop.notified().await }).await })
        })
        .collect();
    let mut parents = Vec::new();
    for _ in 0..60 {
        let jobs = ["a", "b", "c", "d"].map(|name| job(name, []));
        parents.push(bench.live(house(Way::Lenient, jobs)).await);
    }

    let all_done = async {
        for parent in &parents {
            while bench.stands(*parent).await.2.is_none() {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    };
    let done = tokio::time::timeout(Duration::from_secs(60), all_done).await;

    stop.notify_waiters();
    for engine in running {
        engine.await.unwrap().unwrap();
    }
    assert!(done.is_ok(), "the parent waits for a child that has ended");
}
