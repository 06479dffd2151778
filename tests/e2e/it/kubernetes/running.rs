//! Probes with pods, on a real API server; [`e2e::kubelet`] simulates scheduler, kubelets and network.

use super::{
    server::{World, differences, world},
    steps::{CLUSTER, Stage, WORKSPACE, namespace, onboarding},
};
use backends::kubernetes::KubernetesTarget;
use e2e::kubelet::{Kubelets, Play};
use engine::{ActionError, Class};
use serde_json::{Value, json};
use std::time::Duration;
use workflows::platform::{IsolationKind::*, *};

const NODE: &str = "probed-node";
/// A node without a tenant, for pods of the platform.
const COMMON: &str = "common-node";
const PROBES: &str = "tenure-probes";
const IMAGE: &str =
    "registry.example/busybox@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A tenant with a namespace and a node, and the running simulation.
struct Scene {
    stage: Stage,
    tenant: &'static str,
    kubelets: Kubelets,
}

impl Scene {
    async fn new(world: &World, tenant: &'static str) -> Self {
        let stage =
            Stage::with(&KubernetesTarget { probe_image: Some(IMAGE.into()), ..world.target() }).await;
        let (url, token) = world.access();
        let kubelets = Kubelets::beside(url, token, Play::default());
        for node in [NODE, COMMON] {
            world.delete(&format!("/api/v1/nodes/{node}")).await;
            world.node(node).await;
        }
        let owner = Ownership { tenant: Some(tenant.into()), owner_epoch: 1, cordoned: false };
        stage.on.kubernetes.take_node(CLUSTER, NODE, &owner, &stage.stamp("take", 1)).await.unwrap();
        let space = &onboarding(tenant, 1)[0];
        stage.done(space.act.as_ref(), space.step, false).await;
        // A pod needs the account that a controller makes in a new namespace, and its token comes even later.
        let account = format!("/api/v1/namespaces/{}/serviceaccounts/default", namespace(tenant));
        world
            .until(|| async {
                world.get(&account).await.is_some_and(|account| account["secrets"].is_array())
            })
            .await;
        Self { stage, tenant, kubelets }
    }

    async fn probe(&self, kind: IsolationKind, stamp: &CallMetadata) -> Result<ProbeFinding, ActionError> {
        self.stage.on.kubernetes.probe_isolation(CLUSTER, self.tenant, WORKSPACE, kind, stamp).await
    }

    /// Returns the metadata of a call with its real deadline.
    fn stamp(&self, step: &str, epoch: u64) -> CallMetadata {
        CallMetadata { deadline: Duration::from_secs(30), ..self.stage.stamp(step, epoch) }
    }

    async fn end(self, world: &World) {
        let space = &onboarding(self.tenant, 1)[0];
        self.stage.done(space.undo.as_ref(), space.step, true).await;
        for node in [NODE, COMMON] {
            world.delete(&format!("/api/v1/nodes/{node}")).await;
        }
    }
}

async fn pods(world: &World) -> Vec<Value> {
    world.get("/api/v1/pods").await.unwrap()["items"].as_array().unwrap().clone()
}

/// An isolating network passes, an open one fails, and neither probe leaves objects behind.
#[tokio::test(flavor = "multi_thread")]
async fn traffic_between_tenants_is_detected_exactly_where_it_flows() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "walled").await;
    let before = world.snapshot().await;
    let stamp = scene.stamp("traffic", 1);

    let held = scene.probe(CrossTenantTraffic, &stamp).await.unwrap();
    assert!(held.held && held.transcript.contains("0 of 3 attempts got through"), "{held:?}");
    // A leak in either direction means that there is no isolation.
    for from in [PROBES.to_owned(), namespace("walled")] {
        scene.kubelets.play(|play| play.reaches = Box::new(move |one, other| one == other || one == from));
        let open = scene.probe(CrossTenantTraffic, &stamp).await.unwrap();
        assert!(!open.held && open.transcript.contains("3 of 3 attempts got through"), "{open:?}");
    }

    assert_eq!(differences(&before, &world.snapshot().await), [""; 0], "a probe leaves no objects");
    scene.end(&world).await;
}

/// If the probe's permitted control connection fails, a refusal proves nothing. A probe whose pods do not run, or a dry
/// run, also proves nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_that_fails_its_own_control_gives_no_verdict() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "unsure").await;
    let before = world.snapshot().await;
    let stamp = scene.stamp("unsure", 1);

    for dead in [PROBES.to_owned(), namespace("unsure")] {
        scene.kubelets.play(|play| play.reaches = Box::new(move |one, other| one == other && one != dead));
        let error = scene.probe(CrossTenantTraffic, &stamp).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.class), (codes::PROBE_UNDECIDED, Class::Transient), "{error}");
        assert!(error.message.contains("does not reach the pod beside it"), "{error}");
    }
    scene.kubelets.play(|play| play.reaches = Box::new(|one, other| one == other));
    scene.kubelets.play(|play| play.places = false);
    let short = CallMetadata { deadline: Duration::from_secs(4), ..stamp.clone() };
    for kind in [CrossTenantTraffic, ForeignPod] {
        let error = scene.probe(kind, &short).await.unwrap_err();
        assert_eq!(error.code, codes::PROBE_UNDECIDED, "{error}");
        assert_eq!(differences(&before, &world.snapshot().await), [""; 0], "{kind:?} leaves nothing");
    }
    let dry = scene.probe(CrossTenantTraffic, &stamp.as_dry_run()).await.unwrap_err();
    assert_eq!((dry.code.as_str(), dry.class), (codes::UNSUPPORTED, Class::Permanent));
    scene.end(&world).await;
}

/// A foreign pod stays off the tenant's nodes if the scheduler reports their taint as the reason; no other reason counts.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_pod_on_a_node_of_a_tenant_is_found() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "own-nodes").await;
    let before = world.snapshot().await;
    let stamp = scene.stamp("foreign", 1);

    let off = scene.probe(ForeignPod, &stamp).await.unwrap();
    assert!(off.held && off.transcript.contains("tenure.dev/tenant: own-nodes"), "{off:?}");
    scene.kubelets.play(|play| play.heeds_taints = false);
    let on = scene.probe(ForeignPod, &stamp).await.unwrap();
    assert!(!on.held && on.transcript.contains(&format!("was placed on node {NODE}")), "{on:?}");
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);

    // Without a node of the tenant neither pod is placed, which is no evidence.
    world.delete(&format!("/api/v1/nodes/{NODE}")).await;
    scene.kubelets.play(|play| play.heeds_taints = true);
    let short = CallMetadata { deadline: Duration::from_secs(4), ..stamp };
    let none = scene.probe(ForeignPod, &short).await.unwrap_err();
    assert_eq!(none.code, codes::PROBE_UNDECIDED, "{none}");
    scene.end(&world).await;
}

/// The leftovers of an interrupted call are removed by the next call of its step, are not read as its result, and are deleted with the
/// tenant.
#[tokio::test(flavor = "multi_thread")]
async fn remains_of_an_interrupted_probe_are_removed_and_ignored() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "broken-off").await;
    let stamp = scene.stamp("traffic", 2);
    let before = world.snapshot().await;
    // Given up once all four pods exist and one client has found isolation; without the other one there is no result.
    scene.kubelets.play(|play| play.ends = 1);
    let left = async {
        loop {
            let mut pods = pods(&world).await;
            pods.retain(|pod| pod["spec"]["containers"][0]["image"] == IMAGE);
            if pods.len() == 4 && pods.iter().any(|pod| pod["status"]["phase"] == "Failed") {
                scene.kubelets.play(|play| play.runs = false);
                return pods;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let left = tokio::select! {
        left = left => left,
        found = scene.probe(CrossTenantTraffic, &stamp) => panic!("it was to be given up: {found:?}"),
    };
    let late = scene.probe(CrossTenantTraffic, &scene.stage.stamp("traffic", 1)).await.unwrap_err();
    assert_eq!(late.code, codes::FENCED, "an earlier holder of the lease changes nothing: {late}");

    // Meanwhile the isolation is gone.
    scene.kubelets.play(|play| play.reaches = Box::new(|_, _| true));
    scene.kubelets.play(|play| (play.runs, play.ends) = (true, usize::MAX));
    let found = scene.probe(CrossTenantTraffic, &stamp).await.unwrap();
    assert!(!found.held, "the result of an old pod was used: {found:?}");
    assert_eq!(differences(&before, &world.snapshot().await), [""; 0]);

    // The step is never repeated: its leftovers in the platform's namespace are deleted with the tenant's.
    let uid = |space: &str| format!("/api/v1/namespaces/{space}");
    let home = world.get(&uid(&namespace("broken-off"))).await.unwrap()["metadata"]["uid"].clone();
    let mine = left.iter().find(|pod| pod["metadata"]["namespace"] == PROBES).unwrap();
    assert_eq!(mine["metadata"]["ownerReferences"][0]["uid"], home);
    scene.end(&world).await;
}

/// A pod of another owner with the probe's name stays, and the probe reports it.
#[tokio::test(flavor = "multi_thread")]
async fn a_probe_never_removes_a_pod_of_another_owner() {
    let Some(world) = world().await else { return };
    let scene = Scene::new(&world, "namesake").await;
    let stamp = CallMetadata { deadline: Duration::from_secs(4), ..scene.stage.stamp("traffic", 1) };
    scene.kubelets.play(|play| play.places = false);
    let name = async {
        loop {
            if let Some(pod) =
                pods(&world).await.into_iter().find(|pod| pod["metadata"]["namespace"] == PROBES)
            {
                return pod["metadata"]["name"].as_str().unwrap().to_owned();
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (name, ended) = tokio::join!(name, scene.probe(CrossTenantTraffic, &stamp));
    assert!(ended.is_err());
    let theirs = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": { "containers": [{ "name": "theirs", "image": "registry.example/theirs" }] },
    });
    let path = format!("/api/v1/namespaces/{PROBES}/pods");
    let made = world.post(&path, theirs).await;

    let error = scene.probe(CrossTenantTraffic, &stamp).await.unwrap_err();

    assert_eq!(error.code, codes::OBJECT_FOREIGN, "{error}");
    let stays = world.get(&format!("{path}/{name}")).await.unwrap();
    assert_eq!(stays["metadata"]["uid"], made["metadata"]["uid"]);
    assert!(stays["metadata"]["deletionTimestamp"].is_null());
    world.delete(&format!("{path}/{name}")).await;
    scene.end(&world).await;
}
