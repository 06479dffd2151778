//! Incidents of nodes: taken out of service at once, evacuated after approval, repaired as the driver advises, and
//! returned only if they pass their tests.

use crate::quota::stage::Stage;
use backends::simulated::{Fault, FaultKind, Script};
use engine::{Attribution, Event, MINUTE, Person, Verdict};
use serde_json::json;
use store::ExecutionId;
use workflows::{
    incident::{IncidentCause, IncidentResponse},
    platform::{StartWorkload, WorkloadRef},
    tenancy::{Node, NodeState, NodeUse, Workload, WorkloadState},
};

async fn report(stage: &Stage) -> ExecutionId {
    let happening = IncidentCause::GpuFault {
        tenant: "acme".parse().unwrap(),
        cluster: "west-1".parse().unwrap(),
        node: "w-0000".parse().unwrap(),
    };
    stage.begin(IncidentResponse::new(happening, "dcgm".into(), "XID 79 on GPU 0".into())).await.unwrap()
}

/// A workload of two GPUs on the tenant's node, in the account and on the simulated platform.
async fn busy() -> Stage {
    let stage = Stage::with_tenant("H100").await;
    stage.runs("research", "train", 2).await;
    let placed: Workload = stage.find("acme/train").await.unwrap();
    let gpus = placed.placed.iter().map(|part| (part.node.to_string(), part.gpus.keys().copied().collect()));
    let workload = WorkloadRef {
        cluster: "west-1".into(),
        tenant: "acme".into(),
        workspace: "research".into(),
        name: "train".into(),
    };
    stage.world().run_workload(&StartWorkload {
        workload,
        gpus: gpus.collect(),
        service: false,
        profiles: std::collections::BTreeMap::new(),
    });
    stage
}

fn says(stage: &Stage, faults: &[(&str, FaultKind)]) {
    let faults = faults.iter().map(|(action, what)| Fault::on(action, *what).times(0)).collect();
    stage.world().script(Script { faults, random: None });
}

async fn node(stage: &Stage) -> (NodeState, bool, serde_json::Value) {
    let node: Node = stage.find("w-0000").await.unwrap();
    let used: NodeUse = stage.find("w-0000").await.unwrap();
    let seen = stage.world().snapshot()["kubernetes/west-1/Node/w-0000"]["cordoned"].clone();
    (node.state, used.serving, seen)
}

async fn train(stage: &Stage) -> WorkloadState {
    stage.find::<Workload>("acme/train").await.unwrap().state
}

async fn vote(stage: &Stage, id: ExecutionId, verdict: Verdict) {
    let case = stage.engine.approval(id).await.unwrap().unwrap();
    let person = Person::new("olga", case.seats[0].any_of.clone());
    stage.engine.vote(id, &person, verdict, &case.digest, "seen").await.unwrap();
    stage.engine.run_until_idle().await.unwrap();
}

#[tokio::test]
async fn a_faulty_node_is_emptied_after_approval_and_reused_only_once_it_is_empty() {
    let stage = busy().await;
    says(&stage, &[("InspectGpus", FaultKind::AsksReset), ("EvictWorkload", FaultKind::WorkloadClings)]);
    let before: Workload = stage.find("acme/train").await.unwrap();
    let id = report(&stage).await;
    assert_eq!(stage.state(id).await, "AwaitingRemedy");
    assert_eq!(
        node(&stage).await,
        (NodeState::InService, false, json!(true)),
        "no new workload is placed on it"
    );
    assert_eq!(train(&stage).await, WorkloadState::Admitted, "no workload is moved without approval");

    vote(&stage, id, Verdict::Approve).await;
    stage.pass(MINUTE).await;
    assert_eq!(stage.state(id).await, "AwaitingGone");
    assert_eq!(train(&stage).await, WorkloadState::Admitted, "it was notified, and has not ended");

    stage.world().script(Script::default());
    let workload = WorkloadRef {
        cluster: "west-1".into(),
        tenant: "acme".into(),
        workspace: "research".into(),
        name: "train".into(),
    };
    stage
        .engine
        .platform()
        .workloads
        .force_remove(&workload, &uid(&stage, &workload).await, &stamp())
        .await
        .unwrap();
    for _ in 0..10 {
        stage.pass(MINUTE).await;
    }

    assert_eq!(stage.state(id).await, "AwaitingReview");
    let again: Workload = stage.find("acme/train").await.unwrap();
    assert_ne!(again.decision, before.decision, "it was queued and admitted again");
    let effects = stage.world().all_effects();
    assert_eq!(effects.keys().filter(|key| key.contains("ResettingGpus")).count(), 1, "{effects:?}");
    assert_eq!(node(&stage).await, (NodeState::InService, true, json!(false)), "repaired, tested, and back");
}

fn stamp() -> workflows::platform::CallMetadata {
    workflows::platform::CallMetadata {
        action: "test",
        step: "an operator".into(),
        key: "an operator".into(),
        epoch: store::Epoch(1),
        undo: false,
        deadline: MINUTE,
        dry_run: false,
    }
}

async fn uid(stage: &Stage, workload: &WorkloadRef) -> String {
    stage.engine.platform().workloads.observe(workload, &stamp()).await.unwrap().unwrap().uid
}

#[tokio::test]
async fn a_node_that_stays_unfit_is_quarantined_with_its_findings() {
    let stage = Stage::with_tenant("H100").await;
    says(&stage, &[("InspectGpus", FaultKind::AsksReboot), ("ExamineNode", FaultKind::NodeUnfit)]);

    let id = report(&stage).await;
    stage.pass(MINUTE).await;

    assert_eq!(stage.state(id).await, "AwaitingReview");
    assert_eq!(node(&stage).await, (NodeState::Quarantined, false, json!(true)));
    let (_, shown) = stage.engine.execution(id).await.unwrap();
    assert_eq!(shown.body["data"]["diagnosis"], "simulated: memory test failed on GPU 0");
}

/// A node that one incident left out of service may be returned by the next one.
#[tokio::test]
async fn a_node_left_out_of_service_returns_through_another_incident() {
    let stage = busy().await;
    says(&stage, &[("InspectGpus", FaultKind::NodeUnfit)]);
    let first = report(&stage).await;
    vote(&stage, first, Verdict::Refuse).await;
    vote(&stage, first, Verdict::Approve).await;
    assert_eq!(stage.state(first).await, "Closed");
    assert_eq!(node(&stage).await, (NodeState::InService, false, json!(true)));

    // A withdrawn incident leaves the node as it found it.
    let taken_back = report(&stage).await;
    let order = Attribution { by: "rita".into(), reason: "a false alarm".into() };
    stage.engine.deliver(taken_back, Event::CancelRequested(order)).await.unwrap();
    stage.engine.run_until_idle().await.unwrap();
    assert_eq!(stage.engine.record(taken_back).await.unwrap().reason.as_deref(), Some("cancelled"));
    assert_eq!(node(&stage).await, (NodeState::InService, false, json!(true)));

    says(&stage, &[]);
    let second = report(&stage).await;

    assert_eq!(stage.state(second).await, "AwaitingReview");
    assert_eq!(node(&stage).await, (NodeState::InService, true, json!(false)));
    assert_eq!(train(&stage).await, WorkloadState::Admitted);
}
