//! HTTP: a cluster's facts about running workloads, and their effect on the account.

use super::{ACME, items, submit};
use crate::served::{Answer, Served, shared};
use serde_json::{Value, json};

const NODES_OF_FOUR: &str =
    "sn,cpu_milli,memory_mib,gpu,model\nn-1,96000,786432,4,H100\nn-2,96000,786432,4,H100\n";

/// A tenant with two nodes of four GPUs, and two workspaces with a quota of one node each.
async fn two_nodes() -> Served {
    let served = Served::start_with(&[("TENURE_SIMULATED_OBSERVE", "false")]);
    let answer = served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES_OF_FOUR).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let id = served.onboard(&shared(ACME)).await;
    assert_eq!(served.ended(&id).await["reason"], "completed");
    push(&served, [0, 0], json!([])).await;
    served
}

/// Returns facts in which `busy` GPUs of the two nodes are in use.
async fn facts(served: &Served, busy: [u64; 2], running: Value) -> Answer {
    let of = |busy: u64| json!({ "H100": { "usable": 4, "busy": busy } });
    let mut body = json!({ "nodes": { "n-1": of(busy[0]), "n-2": of(busy[1]) } });
    if running != json!([]) {
        body["running"] = running;
    }
    served.json_as(&served.admin, "/v1/clusters/eu-1/facts", body).await
}

async fn push(served: &Served, busy: [u64; 2], running: Value) -> Value {
    let taken = facts(served, busy, running).await;
    assert_eq!(taken.status, 200, "{}", taken.body);
    taken.body
}

/// Returns the node on which the account has a workload, and the other one.
async fn booked(served: &Served, name: &str) -> (String, String) {
    let workload = served.get(&format!("/v1/workloads/acme/{name}")).await.body;
    assert_eq!(workload["placed"].as_array().unwrap().len(), 1, "{workload}");
    let node = workload["placed"][0]["node"].as_str().unwrap().to_owned();
    let other = if node == "n-1" { "n-2" } else { "n-1" };
    (node, other.to_owned())
}

fn busy_on(node: &str) -> [u64; 2] {
    if node == "n-1" { [4, 0] } else { [0, 4] }
}

/// The scheduler placed the first workload on another node than planned, and the sender of the facts names no workload.
#[tokio::test]
async fn an_owner_can_use_its_idle_quota_although_another_workload_runs_on_an_unplanned_node() {
    let served = two_nodes().await;
    assert_eq!(submit(&served, "research", "r1", 4).await.status, 200);
    let (_, other) = booked(&served, "r1").await;

    let taken = push(&served, busy_on(&other), json!([])).await;
    let own = submit(&served, "serving", "s1", 4).await;

    assert_eq!(taken["drift"], json!([]), "it is one of the tenant's workloads: {taken}");
    assert_eq!(own.status, 200, "{}", own.body);
    assert_eq!(submit(&served, "serving", "s2", 1).await.status, 202, "and no more than the free GPUs");
}

/// With facts about the actual node the booking moves, and the planned node is free.
#[tokio::test]
async fn a_booking_moves_to_the_node_on_which_its_workload_runs_in_one_commit() {
    let served = two_nodes().await;
    assert_eq!(submit(&served, "research", "r1", 4).await.status, 200);
    let (planned, other) = booked(&served, "r1").await;
    let before = served.get("/v1/workloads/acme/r1").await.body;
    assert_eq!((&before["placement"], &before["observed"]), (&json!("expected"), &Value::Null), "{before}");

    let gpus: Vec<_> = (0..4).map(|n| json!({ "uuid": format!("GPU-{other}-{n}"), "index": n })).collect();
    let running = json!([{
        "workload": "r1", "uid": "8f1c", "node": other, "gpus": gpus, "since": "2026-01-01T00:00:00.000Z"
    }]);
    let taken = push(&served, busy_on(&other), running).await;

    assert_eq!(taken["moved"], json!([{ "tenant": ACME, "workload": "r1" }]), "{taken}");
    assert_eq!(taken["drift"], json!([]), "{taken}");
    let after = served.get("/v1/workloads/acme/r1").await.body;
    assert_eq!(
        (&after["placed"][0]["node"], &after["placement"]),
        (&json!(other), &json!("observed")),
        "{after}"
    );
    assert_eq!(after["observed"]["nodes"][&other]["gpus"].as_array().unwrap().len(), 4, "{after}");
    assert_eq!(after["observed"]["nodes"][&other]["since"], "2026-01-01T00:00:00.000Z", "{after}");
    assert_eq!(submit(&served, "serving", "s1", 4).await.status, 200);
    assert_eq!(booked(&served, "s1").await.0, planned, "the planned node is free for other workloads");
}

#[tokio::test]
async fn gpus_used_by_an_unknown_workload_are_not_given_to_others() {
    let served = two_nodes().await;
    let (one, four) = (json!([{ "workload": "stray", "node": "n-1", "count": 4 }]), [4, 0]);
    let taken = push(&served, four, one).await;

    assert_eq!(taken["drift"][0]["drift"]["astray"], 4, "{taken}");
    assert_eq!(submit(&served, "research", "r1", 4).await.status, 200);
    assert_eq!(submit(&served, "serving", "s1", 4).await.status, 202);
}

#[tokio::test]
async fn invalid_facts_name_the_entry_and_change_nothing() {
    let served = two_nodes().await;
    let one = |entry: Value| json!([entry]);
    for (wrong, words) in [
        (one(json!({ "workload": "r1", "node": "n-7", "count": 1 })), "nodes has no n-7"),
        (one(json!({ "workload": "r1", "node": "n-1" })), "0 GPUs"),
        (one(json!({ "workload": "r1\n", "node": "n-1", "count": 1 })), "letters"),
        (one(json!({ "workload": "r1", "node": "n-1", "count": 100_000 })), "100000 GPUs"),
    ] {
        let refused = facts(&served, [0, 0], wrong).await;
        assert_eq!(refused.code(), "document.invalid", "{}", refused.body);
        assert!(refused.body.to_string().contains(words), "{words}: {}", refused.body);
    }
}

/// A component starts an admitted workload in the cluster and not only in the account.
#[tokio::test]
async fn a_queued_workload_is_started_by_the_commit_that_admits_it() {
    let served = two_nodes().await;
    assert_eq!(submit(&served, "research", "first", 4).await.status, 200);
    assert_eq!(submit(&served, "serving", "owner", 4).await.status, 200);
    assert_eq!(submit(&served, "research", "next", 4).await.status, 202);

    let ended = served.json_as(&served.admin, "/v1/workloads/acme/first:finish", json!({})).await;
    assert_eq!(ended.body["admitted_by_that"], json!(["next"]), "{}", ended.body);

    let mut starts = Vec::new();
    for _ in 0..1_000 {
        let found = served.get("/v1/executions?workflow=workload_start").await;
        starts = items(&found).clone();
        let over = |start: &&Value| start["subject"] == "workload/acme/next" && start["open"] == false;
        if starts.iter().any(|start| over(&start)) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    let next = starts.iter().find(|start| start["subject"] == "workload/acme/next");
    assert_eq!(next.map(|start| &start["state"]), Some(&json!("Started")), "{starts:?}");
}
