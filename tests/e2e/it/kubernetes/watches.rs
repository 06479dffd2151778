//! Waits that end by a watch event, without polling.

use super::{
    server::{World, world},
    steps::{CLUSTER, Stage, WORKSPACE, namespace, onboarding},
};
use backends::kubernetes::KubernetesTarget;
use engine::Class;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tests::kit::proxy::{Asked, Proxy, by_method};
use workflows::platform::*;

/// Longer than any of these tests: an earlier end was an event.
const LONG: u64 = 60_000;

fn watches(asked: &Asked) -> bool {
    asked.target.contains("watch=true")
}

fn space(tenant: &str) -> String {
    format!("/api/v1/namespaces/{}", namespace(tenant))
}

/// A platform with long waits, behind a proxy. Its calls have two minutes.
async fn patient(world: &World) -> (Proxy, Stage, KubernetesTarget) {
    let (proxy, target) = world.proxied(by_method).await;
    let target = KubernetesTarget { watch_ms: LONG, ..target };
    (proxy, Stage::with(&target).await, target)
}

/// A tenant's namespace with a finalizer that is never removed.
async fn held(world: &World, tenant: &str) -> Value {
    let labels = json!({ "tenure.dev/tenant": tenant });
    let made = json!({ "metadata": { "name": namespace(tenant), "labels": labels }, "apiVersion": "v1", "kind": "Namespace" });
    let made = world.post("/api/v1/namespaces", made).await;
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "held", "finalizers": ["storage.example/volume"] },
    });
    world.post(&format!("{}/configmaps", space(tenant)), map).await;
    made
}

async fn let_go(world: &World, tenant: &str) {
    let free = json!({ "metadata": { "finalizers": null } });
    world.merge(&format!("{}/configmaps/held", space(tenant)), free).await;
}

fn place(tenant: &str) -> ObjectRef {
    ObjectRef::new(CLUSTER, ObjectKind::Namespace, &namespace(tenant))
}

/// Returns the metadata of a call that has two minutes.
fn stamp(stage: &Stage) -> CallMetadata {
    CallMetadata { deadline: Duration::from_secs(120), ..stage.stamp("wait", 1) }
}

/// One watch waits for a deletion and ends with it: with few requests, whatever the duration.
#[tokio::test(flavor = "multi_thread")]
async fn the_removal_of_an_object_ends_the_wait_for_it_and_is_requested_once() {
    let Some(world) = world().await else { return };
    let (proxy, stage, _) = patient(&world).await;
    let made = held(&world, "waits").await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    world.remove(&space("waits")).await;
    let (place, stamp, before) = (place("waits"), stamp(&stage), proxy.seen());

    let freeing = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let_go(&world, "waits").await;
        // The cluster's own controller needs an unknown time, and more on a busy machine.
        world.until(|| async { world.get(&space("waits")).await.is_none() }).await;
        Instant::now()
    };
    let (left, gone) = tokio::join!(stage.on.kubernetes.wait_until_gone(&place, uid, &stamp), freeing);

    assert_eq!(left.unwrap(), None);
    assert!(gone.elapsed() < Duration::from_secs(5), "{:?}", gone.elapsed());
    let asked = proxy.seen() - before;
    assert!(asked <= 4, "{asked} requests for one wait of more than three seconds");
}

/// The watch starts at a version that the server no longer has: the object is read, and the watch starts again from there.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_with_an_expired_start_starts_again() {
    let Some(world) = world().await else { return };
    let (proxy, stage, _) = patient(&world).await;
    let made = held(&world, "forgets").await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    world.remove(&space("forgets")).await;
    let (place, stamp) = (place("forgets"), stamp(&stage));

    let forgetting = proxy.hold(watches).after(async {
        let seen = world.get(&space("forgets")).await.unwrap();
        let version = seen["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        // Other objects change meanwhile; a server that starts afterwards knows only their last version.
        for n in 0..3 {
            let news = json!({ "metadata": { "annotations": { "news": n.to_string() } } });
            world.merge("/api/v1/namespaces/default", news).await;
        }
        world.kill().await;
        world.compact().await;
        world.start().await;
        world.watched("/api/v1/namespaces", &version).await
    });
    let freeing = async {
        let said = forgetting.await.unwrap();
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(world.get(&space("forgets")).await.is_some(), "it was held until now");
        let_go(&world, "forgets").await;
        said
    };
    let (left, said) = tokio::join!(stage.on.kubernetes.wait_until_gone(&place, uid, &stamp), freeing);

    assert!(said.contains("\"code\":410"), "the server still has the version: {said}");
    assert_eq!(left.unwrap(), None);
}

/// Broken connections and a temporary outage do not end the wait: the object is read, or the read reports its failure.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_watch_is_not_an_absence() {
    let Some(world) = world().await else { return };
    let (proxy, stage, _) = patient(&world).await;
    let made = held(&world, "breaks").await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    world.remove(&space("breaks")).await;
    let (place, stamp) = (place("breaks"), stamp(&stage));

    let cutting = async {
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            proxy.cut();
        }
        let_go(&world, "breaks").await;
    };
    let (left, ()) = tokio::join!(stage.on.kubernetes.wait_until_gone(&place, uid, &stamp), cutting);
    assert_eq!(left.unwrap(), None);
    assert!(world.get(&space("breaks")).await.is_none());

    let made = held(&world, "breaks").await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    world.remove(&space("breaks")).await;
    let away = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.kill().await;
    };
    let (left, ()) = tokio::join!(stage.on.kubernetes.wait_until_gone(&place, uid, &stamp), away);
    world.start().await;
    let error = left.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::UNAVAILABLE, Class::Transient), "{error}");
    let_go(&world, "breaks").await;
    world.until(|| async { world.get(&space("breaks")).await.is_none() }).await;
}

/// A client without the right or the wish to watch does not wait and gets the current state.
#[tokio::test(flavor = "multi_thread")]
async fn without_a_watch_the_present_state_is_returned() {
    let Some(world) = world().await else { return };
    let made = held(&world, "blind").await;
    let uid = made["metadata"]["uid"].as_str().unwrap();
    world.remove(&space("blind")).await;
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles/tenure";
    let rules = world.get(role).await.unwrap()["rules"].clone();
    let blind = rules.to_string().replace("\"watch\",", "");
    world.merge(role, json!({ "rules": serde_json::from_str::<Value>(&blind).unwrap() })).await;
    tokio::time::sleep(Duration::from_millis(500)).await;

    for watch_ms in [LONG, 0] {
        let stage = Stage::with(&KubernetesTarget { watch_ms, ..world.target() }).await;
        let begun = Instant::now();
        let left = stage.on.kubernetes.wait_until_gone(&place("blind"), uid, &stamp(&stage)).await.unwrap();
        assert!(left.is_some_and(|left| left.terminating));
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        world.merge(role, json!({ "rules": rules })).await;
    }
    let_go(&world, "blind").await;
    world.until(|| async { world.get(&space("blind")).await.is_none() }).await;
}

/// The pods of a workload are awaited one after the other; a terminated pod need not be deleted.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_pod_ends_the_wait_for_a_workload() {
    let Some(world) = world().await else { return };
    let (proxy, stage, target) = patient(&world).await;
    let cluster = backends::kubernetes::KubernetesCluster::connect(&target).await.unwrap();
    let pairs: Vec<_> = onboarding("ending", 1).into_iter().take(1).collect();
    stage.onboard(&pairs).await;
    world
        .until(|| async {
            world.get(&format!("{}/serviceaccounts/default", space("ending"))).await.is_some()
        })
        .await;
    let pods = format!("{}/pods", space("ending"));
    let of = WorkloadRef {
        cluster: CLUSTER.into(),
        tenant: "ending".into(),
        workspace: WORKSPACE.into(),
        name: "train".into(),
    };
    for name in ["train-0", "train-1"] {
        let labels = json!({ "tenure.dev/workload": "train" });
        let main = json!({ "name": "main", "image": "registry.example/train" });
        let spec = json!({ "nodeName": "far", "containers": [main] });
        let metadata = json!({ "name": name, "labels": labels });
        world
            .post(&pods, json!({ "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec }))
            .await;
    }
    let (stamp, before) = (stamp(&stage), proxy.seen());

    let ending = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.delete(&format!("{pods}/train-0?gracePeriodSeconds=0")).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        world.merge(&format!("{pods}/train-1/status"), json!({ "status": { "phase": "Succeeded" } })).await;
    };
    let (left, ()) = tokio::join!(Workloads::wait_until_gone(&cluster, &of, &stamp), ending);

    assert!(left.unwrap().is_none_or(|left| !left.pods));
    let asked = proxy.seen() - before;
    assert!(asked <= 20, "{asked} requests for one wait");
    world.delete(&format!("{pods}/train-1?gracePeriodSeconds=0")).await;
    stage.roll_back(&pairs).await;
}
