//! Slices of GPUs, from the request of a tenant to the end of a loan, on a server.

use crate::served::{NODES, Served};
use serde_json::{Value, json};
use std::time::Duration;

const SLICER: &str = "name: slicer\ntenant:\n  tier: research\n  isolation: shared_slices\n  data_residency: eu-only\n  \
     allow_preemption: true\n  allow_gpu_sharing: true\nentitlement:\n  gpu_model: h100\n  gpus: 8\n\
     workspaces:\n  - {name: a, class: batch, quotas: {gpus: 4}}\n  - {name: b, class: batch, quotas: {slices: 28}}\n";
const SLICE: &str = "gpu/H100/1g.10gb";

async fn submit(served: &Served, workspace: &str, name: &str, requests: Value) -> u16 {
    let body = json!({
        "tenant": "slicer", "workspace": workspace, "name": name, "requests": requests, "preemptible": true,
        "class": "batch",
    });
    served.json_as(&served.admin, "/v1/workloads", body).await.status.as_u16()
}

/// Returns the workload, once the server has observed the nodes and admitted it.
async fn admitted(served: &Served, name: &str) -> Value {
    for _ in 0..500 {
        let workload = served.get(&format!("/v1/workloads/slicer/{name}")).await.body;
        if workload["state"] == "admitted" {
            return workload;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{name} is not admitted: {}", served.get(&format!("/v1/workloads/slicer/{name}")).await.body);
}

/// S-44: a tenant buys slices, has quotas of them, uses, borrows and returns them, and never gets a whole GPU of a cut node.
#[tokio::test]
async fn a_tenant_uses_borrows_and_returns_slices_but_gets_no_whole_gpu_of_a_partitioned_node() {
    let served = Served::with_nodes().await;
    let id = served.onboard(SLICER).await;
    let onboarded = served.ended(&id).await;
    assert_eq!(onboarded["state"], "Active", "{onboarded}");

    submit(&served, "a", "small", json!({ SLICE: 1 })).await;
    admitted(&served, "small").await;
    let whole = submit(&served, "a", "whole", json!({ "gpu/H100": 1 })).await;
    assert_eq!(whole, 422, "a whole GPU of a cut node");

    // `a` has 28 slices and uses one: the request borrows five of the 28 of `b`.
    submit(&served, "a", "large", json!({ SLICE: 32 })).await;
    admitted(&served, "large").await;
    let loans = served.get("/v1/loans?state=active").await.body;
    let lent: u64 =
        loans["items"].as_array().unwrap().iter().filter_map(|loan| loan["amount"].as_u64()).sum();
    assert_eq!(lent, 5, "{loans}");
    let ended = served.post("/v1/workloads/slicer/large:finish", "application/json", "{}").await;
    assert_eq!(ended.status, 200, "{}", ended.body);
    assert_eq!(served.get("/v1/loans?state=active").await.body["items"], json!([]));

    let set = served.run(&["quota", "set", "slicer/b", SLICE, "16", "--reason", "a test", "--wait"]);
    assert_eq!(set.exit, 0, "{set:?}");
    let other = served.run(&["quota", "set", "slicer/b", "gpu/H100", "16", "--reason", "a test", "--wait"]);
    assert!(other.exit != 0, "{other:?}");
}

/// Every input accepts every name of a model, and an unknown name is rejected with the nearest known one.
#[tokio::test]
async fn the_refusal_of_an_unknown_model_lists_the_known_ones() {
    let served = Served::with_nodes().await;
    let nodes = NODES.replace("n-", "m-").replace("H100", "NVIDIA-H100-80GB-HBM3");
    let imported = served.post("/v1/fleet:import?cluster=eu-2&region=eu", "text/csv", &nodes);
    assert_eq!(imported.await.body["report"]["models"]["H100"]["nodes"], 8);

    let id = served.onboard(&SLICER.replace("h100", "h101")).await;
    let refused = served.ended(&id).await.to_string();

    assert!(refused.contains("unknown model h101; did you mean H100?"), "{refused}");
    assert!(!refused.contains("import a fleet"), "{refused}");
}
