//! What the backend makes for a tenant is what scheduler, Kueue and admission act upon.

use super::cluster::{Cluster, KUEUE, NODES, cluster, is_so};
use crate::kubernetes::steps::{CLUSTER, NODE, Pair, Stage, WORKSPACE, namespace, onboarding};
use backends::kubernetes::KubernetesTarget;
use serde_json::{Value, json};
use std::time::Duration;
use workflows::platform::*;

const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
/// An image that the tests' tenants may use.
const IMAGE: &str = "registry.example/acme/train";

/// A tenant with everything that an onboarding makes, and the steps that made it.
async fn tenant(on: &Cluster, name: &'static str, target: &KubernetesTarget) -> (Stage, Vec<Pair>) {
    on.node(NODE, "H100").await;
    let stage = Stage::with(target).await;
    let pairs = onboarding(name, 1);
    stage.onboard(&pairs).await;
    on.furnished(&namespace(name)).await;
    (stage, pairs)
}

/// Returns a pod spec as a namespace with pod security `restricted` takes it.
fn spec(image: &str, gpus: u32) -> Value {
    let container = json!({
        "name": "main", "image": image,
        "resources": { "limits": { "nvidia.com/gpu": gpus.to_string(), "cpu": "1" } },
        "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
    });
    json!({
        "automountServiceAccountToken": false, "restartPolicy": "Never", "terminationGracePeriodSeconds": 2,
        "securityContext": { "runAsNonRoot": true, "runAsUser": 1000, "seccompProfile": { "type": "RuntimeDefault" } },
        "containers": [container],
    })
}

/// Returns a job with one pod for the tenant's queue.
fn job(name: &str, gpus: u32) -> Value {
    // KWOK completes a job's pod after some seconds unless it is told how long it takes.
    let lasts = json!({
        "pod-complete.stage.kwok.x-k8s.io/delay": "1h", "pod-complete.stage.kwok.x-k8s.io/jitter-delay": "1h",
    });
    json!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": { "name": name, "labels": { "kueue.x-k8s.io/queue-name": "gpus" } },
        "spec": { "template": { "metadata": { "annotations": lasts }, "spec": spec(IMAGE, gpus) } },
    })
}

/// Kueue takes the queue as it was made, admits a job of a user, and its pod runs on the tenant's node. Evicted by the backend, it ends, and
/// comes back when it is started again. The queue stays while work holds its quota; then nothing is left.
#[tokio::test(flavor = "multi_thread")]
async fn a_job_in_a_tenants_queue_runs_is_evicted_and_runs_again() {
    let Some(on) = cluster().await else { return };
    let (stage, pairs) = tenant(&on, "queued", &on.target()).await;
    let space = namespace("queued");
    let queue = format!("{KUEUE}/clusterqueues/{space}");
    on.until("an active queue", async || is_so(&on.get(&queue).await.unwrap(), "Active")).await;
    let jobs = format!("/apis/batch/v1/namespaces/{space}/jobs");
    on.post(&jobs, job("train", 4)).await;
    let pods = format!("/api/v1/namespaces/{space}/pods");
    let runs = async || {
        let pods = on.list(&pods).await;
        pods.len() == 1 && pods[0]["status"]["phase"] == "Running" && pods[0]["spec"]["nodeName"] == NODE
    };
    on.until("a running pod on the tenant's node", async || runs().await).await;

    let workloads = on.list(&format!("{KUEUE}/namespaces/{space}/workloads")).await;
    let of = WorkloadRef {
        cluster: CLUSTER.into(),
        tenant: "queued".into(),
        workspace: WORKSPACE.into(),
        name: workloads[0]["metadata"]["name"].as_str().unwrap().into(),
    };
    let backend = backends::kubernetes::KubernetesCluster::connect(&on.target()).await.unwrap();
    let seen = async || backend.observe(&of, &stage.stamp("look", 100)).await.unwrap().unwrap();
    let first = seen().await;
    assert!(first.active && first.pods, "{first:?}");
    assert_eq!(first.gpus, GpuSet::from([(NODE.into(), [].into())]), "four of the node's eight");
    backend.evict(&of, &first.uid, &stage.stamp("evict", 100)).await.unwrap();
    on.until("nothing of it runs", async || !seen().await.pods).await;
    on.until("no pod is left", async || on.list(&pods).await.is_empty()).await;
    assert!(!seen().await.active);
    backend.start(&of, &GpuSet::new(), false, &stage.stamp("start", 100)).await.unwrap();
    on.until("it runs again", async || runs().await).await;

    let queue = pairs.iter().find(|pair| pair.step == "queue").unwrap();
    let opening = pairs.iter().find(|pair| pair.step == "opening").unwrap();
    stage.done(opening.undo.as_ref(), opening.step, true).await;
    let busy = stage.once(queue.undo.as_ref(), queue.step, true).await.unwrap_err();
    assert_eq!(busy.code, codes::TERMINATING, "{busy}");
    assert!(busy.message.contains("kueue.x-k8s.io/resource-in-use"), "{busy}");
    on.delete(&format!("{jobs}/train")).await;
    // The queue is closed, and ends with its last job.
    let rest: Vec<_> = pairs.into_iter().filter(|pair| pair.step != "opening").collect();
    stage.roll_back(&rest).await;
    let eyes = Observer::Verifier;
    let stamp = stage.stamp("survey", 100);
    let left = stage.on.tenant_resources.survey("kubernetes", "queued", eyes, &stamp).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

/// The API server evaluates the tenant's policy: images of other registries and tolerations for other tenants' nodes are refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_tenants_policy_refuses_foreign_images_and_tolerations() {
    let Some(on) = cluster().await else { return };
    let (stage, pairs) = tenant(&on, "guarded", &on.target()).await;
    let space = namespace("guarded");
    let policy = on.get(&format!("{POLICIES}/{space}")).await.unwrap();
    let warnings = &policy["status"]["typeChecking"]["expressionWarnings"];
    assert!(warnings.is_null(), "{warnings}");
    let tried = async |spec: Value| {
        let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "tried" }, "spec": spec });
        on.try_post(&format!("/api/v1/namespaces/{space}/pods?dryRun=All"), pod).await
    };
    // The API server needs a moment to apply a new policy.
    on.until("a refused image", async || tried(spec("elsewhere.example/x", 1)).await.0 == 422).await;
    on.until("an allowed image", async || tried(spec(IMAGE, 1)).await.0 == 201).await;
    let mut other = spec(IMAGE, 1);
    other["tolerations"] = json!([{ "key": "tenure.dev/tenant", "operator": "Equal", "value": "another", "effect": "NoSchedule" }]);
    let (status, said) = tried(other).await;
    assert!(status == 422 && said.to_string().contains("tolerations"), "{status} {said}");
    let kind = IsolationKind::ForeignImage;
    let stamp = stage.stamp("image", 100);
    let found =
        stage.on.kubernetes.probe_isolation(CLUSTER, "guarded", WORKSPACE, kind, &stamp).await.unwrap();
    assert!(found.held, "{}", found.transcript);
    stage.roll_back(&pairs).await;
}

/// The scheduler keeps a stranger's pod off the tenant's node, and the probe says so; on a node without the taint it is found.
#[tokio::test(flavor = "multi_thread")]
async fn a_strangers_pod_is_kept_off_by_the_taint_and_found_without_it() {
    let Some(on) = cluster().await else { return };
    on.only(NODE).await;
    let image = Some(format!("registry.example/probe@sha256:{:064}", 0));
    let (stage, pairs) =
        tenant(&on, "tainted", &KubernetesTarget { probe_image: image, ..on.target() }).await;
    let probe = async |n: u32| {
        let stamp =
            CallMetadata { deadline: Duration::from_secs(30), ..stage.stamp(&format!("foreign-{n}"), 100) };
        let kind = IsolationKind::ForeignPod;
        stage.on.kubernetes.probe_isolation(CLUSTER, "tainted", WORKSPACE, kind, &stamp).await.unwrap()
    };

    let off = probe(1).await;
    assert!(off.held && off.transcript.contains("tenure.dev/tenant: tainted"), "{off:?}");
    let node = format!("{NODES}/{NODE}");
    on.merge(&node, json!({ "spec": { "taints": null } })).await;
    let found = probe(2).await;
    assert!(!found.held && found.transcript.contains(NODE), "{found:?}");
    stage.roll_back(&pairs).await;
}
