//! The admission states of a tenant's queue: open, held, closed.

use super::{
    server::{World, differences, world},
    steps::{CLUSTER, Stage, namespace, onboarding},
};
use serde_json::{Value, json};
use workflows::platform::*;

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": name, "labels": { "app": name } },
        "spec": { "automountServiceAccountToken": false, "containers": [{ "name": "c", "image": "i" }] },
    })
}

/// Reports a running pod, as its node would.
async fn running(world: &World, pods: &str, name: &str) {
    world.post(pods, pod(name)).await;
    let ready = json!([{ "type": "Ready", "status": "True" }]);
    let status = json!({ "status": { "phase": "Running", "conditions": ready } });
    world.merge(&format!("{pods}/{name}/status"), status).await;
}

async fn seen(stage: &Stage, door: &TenantResource) -> Value {
    let stamp = stage.stamp("look", 100);
    stage.on.tenant_resources.read_resource(door, Observer::Platform, &stamp).await.unwrap().unwrap().spec
}

/// Held: running work continues. Closed: no work starts and running work is evicted, except pods that a disruption budget protects,
/// which are named; an interrupted closing is repeated. Opened: all is as before. A quota of another manager is never changed.
#[tokio::test(flavor = "multi_thread")]
async fn closed_namespaces_and_queues_admit_nothing_and_reopen_unchanged() {
    let Some(world) = world().await else { return };
    let stage = Stage::new(&world).await;
    let steps = ["namespace", "cohort", "flavor", "queue", "opening"];
    let pairs: Vec<_> = onboarding("door", 1).into_iter().filter(|one| steps.contains(&one.step)).collect();
    stage.onboard(&pairs).await;
    let space = namespace("door");
    let pods = format!("/api/v1/namespaces/{space}/pods");
    let account = format!("/api/v1/namespaces/{space}/serviceaccounts/default");
    world.until(|| async { world.get(&account).await.is_some() }).await;
    running(&world, &pods, "free").await;
    running(&world, &pods, "kept").await;
    let budgets = format!("/apis/policy/v1beta1/namespaces/{space}/poddisruptionbudgets");
    let budget = json!({
        "apiVersion": "policy/v1beta1", "kind": "PodDisruptionBudget", "metadata": { "name": "keeper" },
        "spec": { "minAvailable": 1, "selector": { "matchLabels": { "app": "kept" } } },
    });
    let before = world.snapshot().await;
    let door = TenantResource::new("kubernetes", CLUSTER, "ClusterQueue", &space);
    let set = |admits| SetAdmission { thing: door.clone(), tenant: "door".into(), admits };
    let idle = AwaitIdle { thing: door.clone() };
    assert_eq!(seen(&stage, &door).await, json!({ "stopPolicy": "None", "running": 2, "unfinished": false }));

    stage.done(&set(AccessMode::ReadOnly), "freeze", false).await;
    assert_eq!(seen(&stage, &door).await, json!({ "stopPolicy": "Hold", "running": 2, "unfinished": false }));

    world.post(&budgets, budget).await;
    let stamp = stage.stamp("drain", 100);
    let kept = stage
        .on
        .tenant_resources
        .set_admission(&door, "door", AccessMode::Nothing, &stamp)
        .await
        .unwrap_err();
    assert_eq!(kept.code, codes::DRAINING, "{kept}");
    assert!(matches!(kept.class, engine::Class::Pending { .. }), "{kept}");
    assert!(kept.message.contains("pod kept") && kept.message.contains("keeper"), "{kept}");
    let (status, said) = world.try_post(&pods, pod("late")).await;
    assert_eq!(status, 403, "{said}");
    let half = seen(&stage, &door).await;
    assert_eq!(half, json!({ "stopPolicy": "HoldAndDrain", "running": 1, "unfinished": true }));
    assert_eq!(stage.once(&idle, "idle", false).await.unwrap_err().code, codes::DRAINING);

    world.delete(&format!("{budgets}/keeper")).await;
    stage.done(&set(AccessMode::Nothing), "drain", false).await;
    stage.done(&idle, "idle", false).await;
    let closed = seen(&stage, &door).await;
    assert_eq!(closed, json!({ "stopPolicy": "HoldAndDrain", "running": 0, "unfinished": false }));

    stage.done(&set(AccessMode::ReadOnly), "drain", true).await;
    stage.done(&set(AccessMode::All), "freeze", true).await;
    let left = differences(&before, &world.snapshot().await);
    let ours = ["metadata annotations tenure.dev/calls", "metadata generation", "gone: /api/v1/pods"];
    let left: Vec<_> = left.iter().filter(|line| !ours.iter().any(|one| line.contains(one))).collect();
    assert_eq!(left, [""; 0]);
    assert_eq!(world.try_post(&pods, pod("late")).await.0, 201);

    // The same by the namespace, where there is no queue.
    let space = TenantResource::new("kubernetes", CLUSTER, "Namespace", &space);
    let set = |admits| SetAdmission { thing: space.clone(), tenant: "door".into(), admits };
    stage.done(&set(AccessMode::Nothing), "close", false).await;
    assert_eq!(seen(&stage, &space).await["admits"], "nothing");
    stage.done(&set(AccessMode::All), "close", true).await;
    assert_eq!(seen(&stage, &space).await, json!({ "admits": "all", "running": 0 }));
    stage.roll_back(&pairs).await;
}
