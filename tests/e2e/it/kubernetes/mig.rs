//! GPU layouts by the labels of NVIDIA's GPU operator. Neither it nor a GPU is here: [`Manager`] writes what its MIG manager, the
//! kubelet and GPU feature discovery would.

use super::{
    server::{World, world},
    steps::{CLUSTER, Stage},
};
use backends::{
    kubernetes::{KubernetesTarget, MigTarget},
    simulated::{LocalWorld, simulated_platform},
    targets::Targets,
};
use engine::{ActionError, Class};
use reqwest::Client;
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::Duration,
};
use workflows::platform::*;

const SLICED: &str = "all-1g.10gb";
const WHOLE: &str = "all-disabled";
const GPUS: u32 = 2;
const SLICES: u32 = 7 * GPUS;

/// How the fake reacts to a layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    /// Everything as intended.
    Its,
    /// It reports `success`, and the kubelet offers the old devices.
    Forgets,
    /// The kubelet offers the requested devices, and the hardware is unchanged.
    Pretends,
    /// It reports a failure.
    Fails,
    /// It begins, and dies.
    Dies,
}

/// A MIG manager on one node, until it is dropped.
struct Manager {
    does: Arc<Mutex<Does>>,
    playing: tokio::task::JoinHandle<()>,
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.playing.abort();
    }
}

fn path(node: &str) -> String {
    format!("/api/v1/nodes/{node}")
}

fn label<'a>(node: &'a Value, key: &str) -> Option<&'a str> {
    node["metadata"]["labels"][key].as_str()
}

const MANAGERS: &str = "/api/v1/namespaces/gpu-operator/pods";

impl Manager {
    /// The manager of a new node with whole GPUs.
    async fn on(server: &World, node: &'static str) -> Self {
        server.node(node).await;
        let labels = json!({
            "nvidia.com/gpu.count": GPUS.to_string(), "nvidia.com/mig.capable": "true", "nvidia.com/mig.strategy": "mixed",
            "theirs.example/rack": "7",
        });
        server.merge(&path(node), json!({ "metadata": { "labels": labels } })).await;
        let hand = Hand::beside(server);
        gives_out(&hand, node, json!({ "nvidia.com/gpu": GPUS.to_string() })).await;
        let space =
            json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "gpu-operator" } });
        if server.get("/api/v1/namespaces/gpu-operator").await.is_none() {
            server.post("/api/v1/namespaces", space).await;
        }
        let account = "/api/v1/namespaces/gpu-operator/serviceaccounts/default";
        server.until(|| async { server.get(account).await.is_some() }).await;
        let main = json!({ "name": "main", "image": "nvcr.example/mig-manager" });
        let metadata = json!({ "name": format!("mig-{node}"), "labels": { "app": "nvidia-mig-manager" } });
        let pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": { "nodeName": node, "containers": [main] },
        });
        server.post(MANAGERS, pod).await;
        ready(&hand, node, true).await;
        let does = Arc::new(Mutex::new(Does::Its));
        let playing = tokio::spawn(play(hand, node, does.clone()));
        Self { does, playing }
    }

    fn will(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }
}

/// The client with which the fakes write.
struct Hand {
    client: Client,
    url: String,
    token: String,
}

impl Hand {
    fn beside(server: &World) -> Self {
        let (url, token) = server.access();
        let client = Client::builder().danger_accept_invalid_certs(true).no_proxy().build().unwrap();
        Self { client, url, token }
    }

    async fn node(&self, name: &str) -> Option<Value> {
        let request = self.client.get(format!("{}{}", self.url, path(name))).bearer_auth(&self.token);
        request.send().await.ok()?.json().await.ok()
    }

    async fn merge(&self, path: &str, body: Value) {
        let request = self.client.patch(format!("{}{path}?fieldManager=mig-manager", self.url));
        let request = request.header("content-type", "application/merge-patch+json").body(body.to_string());
        request.bearer_auth(&self.token).send().await.unwrap();
    }
}

async fn ready(server: &Hand, node: &str, is: bool) {
    let status = if is { "True" } else { "False" };
    let conditions = json!([{ "type": "Ready", "status": status }]);
    let status = json!({ "status": { "phase": "Running", "conditions": conditions } });
    server.merge(&format!("{MANAGERS}/mig-{node}/status"), status).await;
}

async fn gives_out(server: &Hand, node: &str, allocatable: Value) {
    let status = json!({ "status": { "allocatable": allocatable, "capacity": allocatable } });
    server.merge(&format!("{}/status", path(node)), status).await;
}

async fn play(server: Hand, node: &'static str, does: Arc<Mutex<Does>>) {
    let mut stands = WHOLE.to_owned();
    let say = async |labels: Value| {
        server.merge(&path(node), json!({ "metadata": { "labels": labels } })).await;
    };
    loop {
        tokio::time::sleep(Duration::from_millis(100)).await;
        let Some(live) = server.node(node).await else { continue };
        let Some(asked) = label(&live, "nvidia.com/mig.config") else { continue };
        if asked == stands {
            if label(&live, "nvidia.com/mig.config.state").is_none() {
                say(json!({ "nvidia.com/mig.config.state": "success" })).await;
            }
            continue;
        }
        say(json!({ "nvidia.com/mig.config.state": "pending", "nvidia.com/gpu.deploy.device-plugin": "paused-for-mig-change" })).await;
        tokio::time::sleep(Duration::from_millis(300)).await;
        let does = *does.lock().unwrap();
        let sliced = asked == SLICED;
        let count = if sliced { Value::from(SLICES.to_string()) } else { Value::Null };
        match does {
            Does::Its => {
                let whole = if sliced { 0 } else { GPUS };
                let slices = if sliced { SLICES } else { 0 };
                let all = json!({ "nvidia.com/gpu": whole.to_string(), "nvidia.com/mig-1g.10gb": slices.to_string() });
                gives_out(&server, node, all).await;
                say(json!({
                    "nvidia.com/mig.config.state": "success", "nvidia.com/gpu.deploy.device-plugin": "true",
                    "nvidia.com/mig-1g.10gb.count": count,
                }))
                .await;
            }
            Does::Forgets => {
                say(json!({ "nvidia.com/mig.config.state": "success", "nvidia.com/mig-1g.10gb.count": count })).await;
            }
            Does::Pretends => {
                gives_out(
                    &server,
                    node,
                    json!({ "nvidia.com/mig-1g.10gb": SLICES.to_string(), "nvidia.com/gpu": "0" }),
                )
                .await;
                say(json!({ "nvidia.com/mig.config.state": "success" })).await;
            }
            Does::Fails => say(json!({ "nvidia.com/mig.config.state": "failed" })).await,
            Does::Dies => ready(&server, node, false).await,
        }
        asked.clone_into(&mut stands);
    }
}

/// A platform whose cluster is this one, partitioned by its GPU operator.
async fn stage(server: &World) -> Stage {
    let layouts = [(SLICED.to_owned(), [("1g.10gb".to_owned(), 7)].into())].into();
    let mig = json!(MigTarget { layouts, ..serde_json::from_value(json!({})).unwrap() });
    let mut target = json!(KubernetesTarget { watch_ms: 0, ..server.target() });
    target["mig"] = mig;
    let targets = json!({ "clusters": { CLUSTER: { "kubernetes": target } } });
    let platform = simulated_platform(Arc::new(LocalWorld::new()));
    let on = Targets::parse(&targets.to_string()).unwrap().connect(platform).await.unwrap().platform;
    let mut stage = Stage::new(server).await;
    stage.on = on;
    stage
}

fn set(node: &str, profile: &str) -> SetGpuLayout {
    SetGpuLayout { cluster: CLUSTER.into(), node: node.into(), profile: profile.into() }
}

/// Repeats the call while it is pending.
async fn judged(stage: &Stage, deed: &SetGpuLayout, step: &str) -> Result<(), ActionError> {
    for _ in 0..300 {
        match stage.once(deed, step, false).await {
            Err(error) if error.code == codes::LAYOUT_PENDING => {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            other => return other,
        }
    }
    panic!("{deed:?} is pending for ever");
}

/// A node is partitioned and restored only by its label. It is done once manager, kubelet and hardware agree, and nothing else of the node
/// changes.
#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_partitioned_once_all_three_sources_agree_and_can_be_restored() {
    let Some(server) = world().await else { return };
    let node = "mig-1";
    let _manager = Manager::on(&server, node).await;
    let stage = stage(&server).await;
    assert!(stage.on.gpus.backend().contains("eu-1: layouts by gpu operator"), "{}", stage.on.gpus.backend());
    let before = stage.on.gpus.layout(CLUSTER, node, &stage.stamp("look", 1)).await.unwrap();
    assert_eq!((before.profile.as_str(), before.state), (WHOLE, LayoutState::Success), "{before:?}");
    assert_eq!((before.allocatable.as_str(), before.hardware.as_str()), (WHOLE, WHOLE));

    let first = stage.once(&set(node, SLICED), "slice", false).await.unwrap_err();
    assert_eq!(first.code, codes::LAYOUT_PENDING, "{first}");
    stage.done(&set(node, SLICED), "slice", false).await;

    let live = server.get(&path(node)).await.unwrap();
    assert_eq!(live["status"]["allocatable"]["nvidia.com/mig-1g.10gb"], SLICES.to_string());
    assert_eq!(label(&live, "theirs.example/rack"), Some("7"));
    let restore = RestoreGpuLayout { cluster: CLUSTER.into(), node: node.into(), previous: before.profile };
    let first = stage.once(&restore, "slice", true).await.unwrap_err();
    assert_eq!(
        first.code,
        codes::LAYOUT_PENDING,
        "the status of the earlier layout does not count for this one: {first}"
    );
    stage.done(&restore, "slice", true).await;
    let live = server.get(&path(node)).await.unwrap();
    assert_eq!(live["status"]["allocatable"]["nvidia.com/gpu"], GPUS.to_string());
    assert_eq!(label(&live, "nvidia.com/mig.config"), Some(WHOLE));
}

/// A permanent pending state is detected: without a manager it is wedged, and an operator is needed. A failure is a failure, and success
/// without the kubelet's confirmation is no success.
#[tokio::test(flavor = "multi_thread")]
async fn a_manager_that_crashes_fails_or_forgets_is_not_a_success() {
    let Some(server) = world().await else { return };
    let stage = stage(&server).await;
    for (node, does, code, class) in [
        ("mig-dies", Does::Dies, codes::LAYOUT_WEDGED, Class::Permanent),
        ("mig-fails", Does::Fails, codes::LAYOUT_FAILED, Class::Permanent),
        ("mig-forgets", Does::Forgets, codes::LAYOUT_DISAGREES, Class::Transient),
        ("mig-pretends", Does::Pretends, codes::LAYOUT_DISAGREES, Class::Transient),
    ] {
        let manager = Manager::on(&server, node).await;
        manager.will(does);
        let error = judged(&stage, &set(node, SLICED), node).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.class), (code, class), "{does:?}: {error}");
    }
}

/// An impossible change is refused before a label is written: an unknown layout, GPUs without partitioning, partitions without a resource,
/// GPUs in use, and late calls.
#[tokio::test(flavor = "multi_thread")]
async fn an_impossible_layout_is_refused_before_any_write() {
    let Some(server) = world().await else { return };
    let node = "mig-refuses";
    let _manager = Manager::on(&server, node).await;
    let stage = stage(&server).await;
    let gpus = &stage.on.gpus;
    let ask =
        async |profile: &str, stamp: &CallMetadata| gpus.set_layout(CLUSTER, node, profile, stamp).await;
    let says = async |labels: Value| {
        server.merge(&path(node), json!({ "metadata": { "labels": labels } })).await;
    };

    let error = ask("all-2g.20gb", &stage.stamp("other", 1)).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::REFUSED, Class::Permanent));
    assert!(error.message.contains("all-2g.20gb") && error.message.contains(SLICED), "{error}");
    for (key, wrong, right) in
        [("nvidia.com/mig.strategy", "single", "mixed"), ("nvidia.com/mig.capable", "false", "true")]
    {
        says(json!({ key: wrong })).await;
        let error = ask(SLICED, &stage.stamp("kind", 1)).await.unwrap_err();
        assert_eq!((error.code.as_str(), error.class), (codes::UNSUPPORTED, Class::Permanent), "{key}");
        says(json!({ key: right })).await;
    }
    let limits = json!({ "limits": { "nvidia.com/gpu": "1" } });
    let main = json!({ "name": "main", "image": "registry.example/train", "resources": limits });
    let pods = "/api/v1/namespaces/default/pods";
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    server.until(|| async { server.get(account).await.is_some() }).await;
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "taker" },
        "spec": { "nodeName": node, "containers": [main] },
    });
    server.post(pods, pod).await;
    let error = ask(SLICED, &stage.stamp("busy", 1)).await.unwrap_err();
    assert_eq!((error.code.as_str(), error.class), (codes::GPU_BUSY, Class::Transient));
    assert!(error.message.contains("default/taker"), "{error}");
    server.delete(&format!("{pods}/taker?gracePeriodSeconds=0")).await;
    let live = server.get(&path(node)).await.unwrap();
    assert_eq!(label(&live, "nvidia.com/mig.config"), None, "nothing was written");

    ask(SLICED, &stage.stamp("rehearsal", 1).as_dry_run()).await.unwrap();
    assert_eq!(label(&server.get(&path(node)).await.unwrap(), "nvidia.com/mig.config"), None);
    ask(SLICED, &stage.stamp("slice", 7)).await.unwrap();
    let late = ask(WHOLE, &stage.stamp("slice", 6)).await.unwrap_err();
    assert_eq!((late.code.as_str(), late.class), (codes::FENCED, Class::Permanent));
    let unknown = gpus.layout(CLUSTER, "nowhere", &stage.stamp("look", 1)).await.unwrap_err();
    assert_eq!(unknown.code, codes::OBJECT_MISSING);
}
