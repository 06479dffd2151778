//! The mailbox of a node, on a manual clock.

use backends::{
    agents::{Agents, Answer, Command, GpusByAgents, Output, PullRequest, PullResponse},
    simulated::{LocalWorld, simulated_platform},
    targets::Targets,
};
use engine::{ActionError, Class};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use store::Epoch;
use tokio::time::{Instant, sleep, timeout};
use workflows::platform::{CallMetadata, ScrubLevel, WorkloadRef, Workloads as _};

fn pull(instance: &str, holding: &[&str], wait_ms: u64) -> PullRequest {
    let holding: BTreeSet<String> = holding.iter().map(|id| (*id).to_owned()).collect();
    PullRequest { instance: instance.into(), version: "1".into(), holding, wait_ms }
}

type Asking = tokio::task::JoinHandle<Result<Output, ActionError>>;

fn ask(agents: &Arc<Agents>, command: Command) -> Asking {
    let agents = agents.clone();
    tokio::spawn(async move { agents.ask("c", "n", command, &stamp()).await })
}

fn stamp() -> CallMetadata {
    CallMetadata {
        action: "Test",
        step: "s".into(),
        key: "s".into(),
        epoch: Epoch(1),
        undo: false,
        deadline: Duration::from_secs(30),
        dry_run: false,
    }
}

fn set() -> Command {
    Command::SetLayout { profile: "all-disabled".into() }
}

async fn come(agents: &Agents, instance: &str, holding: &[&str]) -> PullResponse {
    agents.pull("c", "n", &pull(instance, holding, 1_000)).await
}

fn here() -> Arc<Agents> {
    Arc::new(Agents::of(BTreeMap::new()))
}

fn outcome(asked: Result<Output, ActionError>) -> (String, Class) {
    let error = asked.unwrap_err();
    (error.code, error.class)
}

#[tokio::test(start_paused = true)]
async fn an_order_waits_for_its_agent_and_its_answer_for_a_limited_time() {
    let agents = here();
    assert_eq!(come(&agents, "a", &[]).await, PullResponse::default());
    let asking = ask(&agents, set());
    let came = come(&agents, "a", &[]).await;
    assert_eq!((came.orders.len(), &came.orders[0].command), (1, &set()));
    let id = came.orders[0].id.clone();
    assert!(agents.answer("c", "n", Answer { id: id.clone(), outcome: Ok(Output::Done) }));
    assert_eq!(asking.await.unwrap(), Ok(Output::Done));
    assert!(!agents.answer("c", "n", Answer { id, outcome: Ok(Output::Done) }), "no caller waits any more");

    // Fetched, and not answered.
    let (asking, began) = (ask(&agents, set()), Instant::now());
    assert_eq!(come(&agents, "a", &[]).await.orders.len(), 1);
    assert_eq!(outcome(asking.await.unwrap()), ("platform.no_answer".into(), Class::Unknown));
    assert_eq!(began.elapsed(), Duration::from_secs(30));
    // A fetched read changes nothing, answered or not.
    come(&agents, "a", &[]).await;
    let asking = ask(&agents, Command::Layout);
    assert_eq!(come(&agents, "a", &[]).await.orders.len(), 1);
    assert_eq!(outcome(asking.await.unwrap()), ("platform.unavailable".into(), Class::Transient));

    // Not fetched: the agent has gone, and the call fails before its deadline.
    come(&agents, "a", &[]).await;
    let (asking, began) = (ask(&agents, set()), Instant::now());
    assert_eq!(outcome(asking.await.unwrap()), ("platform.unavailable".into(), Class::Transient));
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lost_order_is_handed_out_again_and_a_running_one_is_not() {
    let agents = here();
    come(&agents, "a", &[]).await;
    let asking = ask(&agents, set());
    let id = come(&agents, "a", &[]).await.orders[0].id.clone();

    let again = come(&agents, "a", &[]).await;
    assert_eq!(again.orders.iter().map(|order| &order.id).collect::<Vec<_>>(), [&id], "it was never fetched");
    assert!(again.orders[0].deadline_ms <= 30_000);
    assert_eq!(come(&agents, "a", &[&id]).await, PullResponse::default(), "it came");

    agents.answer("c", "n", Answer { id, outcome: Ok(Output::Done) });
    assert_eq!(asking.await.unwrap(), Ok(Output::Done));
}

#[tokio::test(start_paused = true)]
async fn the_orders_of_an_agent_process_are_unknown_once_another_process_polls() {
    let agents = here();
    come(&agents, "a", &[]).await;
    let (asking, began) = (ask(&agents, set()), Instant::now());
    assert_eq!(come(&agents, "a", &[]).await.orders.len(), 1);

    assert_eq!(come(&agents, "b", &[]).await, PullResponse::default(), "it is not given to another agent");

    assert_eq!(outcome(asking.await.unwrap()), ("platform.no_answer".into(), Class::Unknown));
    assert!(began.elapsed() < Duration::from_secs(2));
    let stale = timeout(Duration::from_millis(10), agents.pull("c", "n", &pull("b", &[], 60_000))).await;
    assert!(stale.is_err(), "it waits");
}

#[tokio::test(start_paused = true)]
async fn an_abandoned_order_is_not_started_and_an_agent_that_runs_it_is_informed() {
    let agents = here();
    come(&agents, "a", &[]).await;
    let never = ask(&agents, set());
    sleep(Duration::from_millis(10)).await;
    never.abort();
    sleep(Duration::from_millis(10)).await;
    assert_eq!(
        come(&agents, "a", &[]).await,
        PullResponse::default(),
        "it was withdrawn before it was fetched"
    );

    let taken = ask(&agents, set());
    let id = come(&agents, "a", &[]).await.orders[0].id.clone();
    taken.abort();
    let told = come(&agents, "a", &[&id]).await;
    assert_eq!((told.orders.len(), told.withdrawn), (0, BTreeSet::from([id.clone()])));
    assert_eq!(come(&agents, "a", &[&id]).await, PullResponse::default(), "once");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_stops_returns_the_orders_that_it_has_not_started() {
    let agents = here();
    come(&agents, "a", &[]).await;
    let asking = ask(&agents, set());
    let id = come(&agents, "a", &[]).await.orders[0].id.clone();

    agents.leave("c", "n", &pull("a", &[], 0));
    let next = come(&agents, "b", &[]).await;

    assert_eq!(next.orders[0].id, id, "the next agent fetches it");
    agents.answer("c", "n", Answer { id, outcome: Ok(Output::Done) });
    assert_eq!(asking.await.unwrap(), Ok(Output::Done));
    agents.leave("c", "n", &pull("b", &[], 0));
    let began = Instant::now();
    assert_eq!(outcome(ask(&agents, set()).await.unwrap()).0, "platform.unavailable");
    assert_eq!(began.elapsed(), Duration::ZERO);
}

/// Agents observe only the GPUs of their cluster; while one of them is missing, no GPU counts as free or clean.
#[tokio::test(start_paused = true)]
async fn agents_serve_the_gpus_of_a_cluster_and_its_backend_serves_the_rest() {
    let hash = "0".repeat(64);
    let targets =
        Targets::parse(&format!("clusters: {{ eu-1: {{ agents: {{ keys: ['{hash}'] }} }} }}")).unwrap();
    let connected = targets.connect(simulated_platform(Arc::new(LocalWorld::new()))).await.unwrap();
    let platform = connected.platform;
    let (stamp, gpus, level) = (stamp(), BTreeSet::from([0]), ScrubLevel::Verified);
    let of = WorkloadRef {
        cluster: "eu-1".into(),
        tenant: "acme".into(),
        workspace: "prod".into(),
        name: "train".into(),
    };

    let layout = platform.gpus.layout("eu-1", "n", &stamp).await.unwrap_err();
    let clients = platform.workloads.clients("eu-1", "n", &gpus, &stamp).await.unwrap_err();
    let scrub = platform.workloads.scrub("eu-1", "n", &gpus, level, &stamp).await.unwrap_err();
    let rest = platform.workloads.observe(&of, &stamp).await.unwrap_err();

    for error in [layout, clients, scrub] {
        assert_eq!((error.code.as_str(), error.class), ("platform.unavailable", Class::Transient));
    }
    assert_eq!(rest.code, "platform.unsupported");
    assert!(platform.gpus.layout("eu-2", "n", &stamp).await.is_ok());
    assert_eq!(platform.backends()["gpus"], "eu-1: agents, others: simulated");
    assert_eq!(platform.backend_of("eu-1"), Some("agents"));
}

/// Only the scheduler sees a job that has GPUs and has not opened them yet.
#[tokio::test(start_paused = true)]
async fn gpu_facts_of_the_scheduler_are_merged_with_those_of_the_driver() {
    let agents = here();
    let simulated = simulated_platform(Arc::new(LocalWorld::new())).workloads;
    let of = WorkloadRef {
        cluster: "c".into(),
        tenant: "acme".into(),
        workspace: "prod".into(),
        name: "train".into(),
    };
    let gpus = BTreeSet::from([0]);
    simulated.start(&of, &BTreeMap::from([("n".to_owned(), gpus.clone())]), false, &stamp()).await.unwrap();
    let both = GpusByAgents::over(agents.clone(), simulated);
    come(&agents, "a", &[]).await;
    let asking = tokio::spawn(async move { both.clients("c", "n", &gpus, &stamp()).await });
    let id = come(&agents, "a", &[]).await.orders[0].id.clone();
    agents.answer("c", "n", Answer { id, outcome: Ok(Output::Clients(vec!["process 42".into()])) });

    let open = asking.await.unwrap().unwrap();

    assert!(open.len() == 2 && open[0] == "process 42" && open[1].contains("train"), "{open:?}");
}
