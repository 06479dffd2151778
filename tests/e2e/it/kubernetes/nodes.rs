//! The ownership of a node, and its cordons.

use super::{
    server::{World, world},
    steps::{CLUSTER, Stage},
};
use serde_json::{Value, json};
use workflows::platform::*;

fn of(tenant: &str, owner_epoch: u64) -> Ownership {
    Ownership { tenant: Some(tenant.to_owned()), owner_epoch, cordoned: false }
}

async fn fresh(world: &World, name: &str) -> String {
    world.delete(&format!("/api/v1/nodes/{name}")).await;
    world.node(name).await;
    format!("/api/v1/nodes/{name}")
}

fn taints(node: &Value) -> Vec<String> {
    let taints = node["spec"]["taints"].as_array().cloned().unwrap_or_default();
    taints
        .iter()
        .map(|taint| format!("{}={}", taint["key"].as_str().unwrap(), taint["value"].as_str().unwrap_or("")))
        .collect()
}

/// Label, taint and epoch change together; an epoch is spent once, even if the node was never taken with it.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_has_one_owner_and_each_epoch_is_used_once() {
    let Some(world) = world().await else { return };
    let (stage, path) = (Stage::new(&world).await, fresh(&world, "owned").await);
    let on = &stage.on.kubernetes;
    let stamp = |step: &str| stage.stamp(step, 1);

    let taken = on.take_node(CLUSTER, "owned", &of("acme", 3), &stamp("take")).await.unwrap();
    assert_eq!(taken, of("acme", 3));
    let node = world.get(&path).await.unwrap();
    assert_eq!(node["metadata"]["labels"]["tenure.dev/tenant"], "acme");
    assert_eq!(taints(&node), ["tenure.dev/tenant=acme"]);
    on.take_node(CLUSTER, "owned", &of("acme", 3), &stamp("take-again")).await.unwrap();
    let same = world.get(&path).await.unwrap();
    assert_eq!(
        node["metadata"]["resourceVersion"], same["metadata"]["resourceVersion"],
        "a repeat writes nothing"
    );
    let refused = |owner, epoch| {
        let stamp = stamp("other");
        async move { on.take_node(CLUSTER, "owned", &of(owner, epoch), &stamp).await.unwrap_err().code }
    };
    assert_eq!(refused("other", 4).await, codes::NODE_OWNED);
    assert_eq!(refused("acme", 2).await, codes::EPOCH_OLD);

    on.return_node(CLUSTER, "owned", &of("acme", 3), &stamp("give")).await.unwrap();
    on.return_node(CLUSTER, "owned", &of("never", 5), &stamp("never")).await.unwrap();
    assert_eq!(refused("acme", 5).await, codes::EPOCH_OLD, "spent by a return without a take");
    let node = world.get(&path).await.unwrap();
    assert_eq!(node["metadata"]["annotations"], json!({ "tenure.dev/spent-epoch": "5" }));
    assert!(taints(&node).is_empty() && node["metadata"]["labels"].is_null(), "{node}");
    on.take_node(CLUSTER, "owned", &of("other", 6), &stamp("next")).await.unwrap();
    on.return_node(CLUSTER, "owned", &of("acme", 3), &stamp("late")).await.unwrap();
    assert_eq!(
        taints(&world.get(&path).await.unwrap()),
        ["tenure.dev/tenant=other"],
        "a late return has no effect"
    );
    world.delete(&path).await;
}

/// Several owners may cordon a node. Ours are distinguished by step, and cordons of operators or other controllers are not
/// touched.
#[tokio::test(flavor = "multi_thread")]
async fn a_cordon_of_another_owner_is_never_lifted() {
    let Some(world) = world().await else { return };
    let (stage, path) = (Stage::new(&world).await, fresh(&world, "shared").await);
    let on = &stage.on.kubernetes;
    let owner = of("acme", 1);
    on.take_node(CLUSTER, "shared", &owner, &stage.stamp("take", 1)).await.unwrap();
    let maintenance = json!({ "spec": { "unschedulable": true, "taints": [
        { "key": "tenure.dev/tenant", "value": "acme", "effect": "NoSchedule" },
        { "key": "maintenance.example/firmware", "effect": "NoExecute" },
    ] } });
    world.merge(&path, maintenance).await;

    let (one, two) = (stage.stamp("one", 1), stage.stamp("two", 1));
    assert!(on.cordon_node(CLUSTER, "shared", &owner, &one).await.unwrap().cordoned);
    assert!(on.cordon_node(CLUSTER, "shared", &owner, &two).await.unwrap().cordoned);
    let lift = stage.stamp("lift", 1);
    let held = on.uncordon_node(CLUSTER, "shared", &owner, &one.step, &lift).await.unwrap();
    assert!(held.cordoned, "the cordon of the other step remains");
    let held =
        on.uncordon_node(CLUSTER, "shared", &owner, "nobody", &stage.stamp("nobody", 1)).await.unwrap();
    assert!(held.cordoned);
    let free =
        on.uncordon_node(CLUSTER, "shared", &owner, &two.step, &stage.stamp("lift-2", 1)).await.unwrap();
    assert!(!free.cordoned);
    on.cordon_node(CLUSTER, "shared", &of("other", 9), &stage.stamp("wrong", 1)).await.unwrap();
    on.return_node(CLUSTER, "shared", &owner, &stage.stamp("give", 1)).await.unwrap();

    let node = world.get(&path).await.unwrap();
    assert_eq!(node["spec"]["unschedulable"], true);
    assert_eq!(taints(&node), ["maintenance.example/firmware="]);
    world.delete(&path).await;
}

/// A node that is not in the cluster can be neither taken nor returned.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_node_is_reported_as_missing() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let on = &stage.on.kubernetes;

    let error = on.take_node(CLUSTER, "nowhere", &of("acme", 1), &stage.stamp("take", 1)).await.unwrap_err();
    assert_eq!(error.code, codes::OBJECT_MISSING);
    let left = on.return_node(CLUSTER, "nowhere", &of("acme", 1), &stage.stamp("give", 1)).await.unwrap();
    assert_eq!(left.tenant, None);
}
