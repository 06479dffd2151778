//! A node with a real kubelet, container runtime and device plugin. Its GPUs do not exist; containers, hooks, signals and packets do.

use super::cluster::{Cluster, KUEUE, NODES, cluster};
use crate::kubernetes::steps::{CLUSTER, Stage, WORKSPACE, namespace, onboarding};
use backends::kubernetes::{KubernetesCluster, KubernetesTarget};
use serde_json::{Value, json};
use std::{collections::BTreeSet, fs, process::Command, time::Duration};
use workflows::platform::*;

const NODE: &str = "node0";
const IMAGE: &str = "localhost/busybox:1";

/// Starts the node, as the cluster's only one; `None` with a message if it cannot be installed.
async fn start(on: &Cluster) -> Option<()> {
    on.only(NODE).await;
    let up = Command::new(e2e::scripts().join("node-up.sh")).arg(on.dir()).output().unwrap();
    let said = String::from_utf8_lossy(&up.stderr).into_owned();
    if up.status.code() == Some(3) {
        e2e::skipped("a real node", &said);
        return None;
    }
    assert!(up.status.success(), "the node does not start: {said}");
    Some(())
}

async fn end(on: &Cluster) {
    let down = Command::new(e2e::scripts().join("node-down.sh")).arg(on.dir()).output().unwrap();
    assert!(down.status.success(), "{}", String::from_utf8_lossy(&down.stderr));
    on.delete(&format!("{NODES}/{NODE}")).await;
}

/// Makes a queue of eight GPUs for a tenant's namespace, which takes any pod.
async fn line(on: &Cluster, space: &str) {
    let make = async |path: &str, version: &str, kind: &str, name: &str, spec: Value| {
        on.post(
            path,
            json!({ "apiVersion": version, "kind": kind, "metadata": { "name": name }, "spec": spec }),
        )
        .await;
    };
    let kueue = "kueue.x-k8s.io/v1beta2";
    make("/api/v1/namespaces", "v1", "Namespace", space, json!({})).await;
    on.furnished(space).await;
    make(&format!("{KUEUE}/resourceflavors"), kueue, "ResourceFlavor", space, json!({})).await;
    let quota = json!({ "name": "nvidia.com/gpu", "nominalQuota": "8" });
    let group = json!({ "coveredResources": ["nvidia.com/gpu"], "flavors": [{ "name": space, "resources": [quota] }] });
    let queue = json!({ "namespaceSelector": {}, "resourceGroups": [group] });
    make(&format!("{KUEUE}/clusterqueues"), kueue, "ClusterQueue", space, queue).await;
    let entrance = json!({ "clusterQueue": space });
    make(&format!("{KUEUE}/namespaces/{space}/localqueues"), kueue, "LocalQueue", "gpus", entrance).await;
}

/// A job that counts, and saves its count when it is asked to end.
fn job(saved: &str) -> Value {
    let script = "trap 'echo $i > /saved/step; sleep 1; exit 143' TERM; echo $NVIDIA_VISIBLE_DEVICES > /saved/gpus; \
                  i=0; while true; do i=$((i+1)); sleep 0.2; done";
    let container = json!({
        "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": ["/bin/sh", "-c", script],
        "lifecycle": { "preStop": { "exec": { "command": ["/bin/sh", "-c", "echo called > /saved/hook"] } } },
        "volumeMounts": [{ "name": "saved", "mountPath": "/saved" }],
        "resources": { "limits": { "nvidia.com/gpu": "4", "cpu": "100m" } },
    });
    let spec = json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": 20, "containers": [container],
        "volumes": [{ "name": "saved", "hostPath": { "path": saved, "type": "DirectoryOrCreate" } }],
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": "train", "labels": { "kueue.x-k8s.io/queue-name": "gpus" } },
        "spec": { "template": { "spec": spec } },
    })
}

/// A job in Kueue's queue runs with GPUs of the device plugin. Evicted, it saves its work within its grace, and its GPUs count as held until
/// its container has ended. A device that fails is no longer offered.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_on_a_real_node_saves_its_work_before_its_gpus_count_as_free() {
    let Some(on) = cluster().await else { return };
    let Some(()) = start(&on).await else { return };
    let space = namespace("real");
    line(&on, &space).await;
    let folder = on.dir().join("node/saved");
    let saved = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_default().trim().to_owned();
    let jobs = format!("/apis/batch/v1/namespaces/{space}/jobs");
    on.post(&jobs, job(folder.to_str().unwrap())).await;
    on.until("a container that runs", async || !saved("gpus").is_empty()).await;
    let mut gpus: Vec<String> = saved("gpus").split(',').map(str::to_owned).collect();
    gpus.sort();
    gpus.dedup();
    assert!(gpus.len() == 4 && gpus.iter().all(|gpu| gpu.starts_with("GPU-0000000")), "{gpus:?}");

    let stage = Stage::with(&on.target()).await;
    let backend = KubernetesCluster::connect(&on.target()).await.unwrap();
    let workloads = on.list(&format!("{KUEUE}/namespaces/{space}/workloads")).await;
    let of = WorkloadRef {
        cluster: CLUSTER.into(),
        tenant: "real".into(),
        workspace: WORKSPACE.into(),
        name: workloads[0]["metadata"]["name"].as_str().unwrap().into(),
    };
    let look = stage.stamp("look", 1);
    let seen = backend.observe(&of, &look).await.unwrap().unwrap();
    assert!(seen.active && seen.pods, "{seen:?}");
    let gpu: BTreeSet<u16> = [0].into();
    let clients = async || backend.clients(CLUSTER, NODE, &gpu, &look).await.unwrap();
    assert_eq!(clients().await.len(), 1);
    backend.evict(&of, &seen.uid, &stage.stamp("evict", 1)).await.unwrap();
    on.until("nobody holds GPUs", async || clients().await.is_empty()).await;
    assert!(saved("step").parse::<u32>().is_ok() && saved("hook") == "called", "the work was saved before");
    let ended = async || backend.observe(&of, &look).await.unwrap().is_none_or(|seen| !seen.pods);
    on.until("the quota is given back", ended).await;

    let devices = on.dir().join("node/devices");
    let all = fs::read_to_string(&devices).unwrap();
    let node = format!("{NODES}/{NODE}");
    let offered =
        async |n: &str| on.get(&node).await.unwrap()["status"]["allocatable"]["nvidia.com/gpu"] == n;
    fs::write(&devices, all.replace("GPU-00000003", "GPU-00000003 Unhealthy")).unwrap();
    on.until("seven GPUs", async || offered("7").await).await;
    fs::write(&devices, all).unwrap();
    on.until("eight GPUs", async || offered("8").await).await;
    on.delete(&format!("{jobs}/train")).await;
    on.delete(&format!("/api/v1/namespaces/{space}")).await;
    on.delete(&format!("{KUEUE}/clusterqueues/{space}")).await;
    on.delete(&format!("{KUEUE}/resourceflavors/{space}")).await;
    end(&on).await;
}

/// Pods of a real probe exchange packets: in a cluster whose network heeds no policies the probe finds the tenant open.
#[tokio::test(flavor = "multi_thread")]
async fn a_network_without_policies_is_found_open_by_pods_that_send_packets() {
    let Some(on) = cluster().await else { return };
    let Some(()) = start(&on).await else { return };
    let image = fs::read_to_string(on.dir().join("node/image")).unwrap().trim().to_owned();
    let stage = Stage::with(&KubernetesTarget { probe_image: Some(image), ..on.target() }).await;
    let steps = ["namespace", "isolation"];
    let pairs: Vec<_> = onboarding("open", 1).into_iter().filter(|pair| steps.contains(&pair.step)).collect();
    stage.onboard(&pairs).await;
    on.furnished(&namespace("open")).await;

    let stamp = CallMetadata { deadline: Duration::from_secs(90), ..stage.stamp("traffic", 1) };
    let kind = IsolationKind::CrossTenantTraffic;
    let found = stage.on.kubernetes.probe_isolation(CLUSTER, "open", WORKSPACE, kind, &stamp).await.unwrap();

    assert!(
        !found.held && found.transcript.contains("from inside to outside 3 of 3 attempts succeeded"),
        "{}",
        found.transcript
    );
    stage.roll_back(&pairs).await;
    end(&on).await;
}
