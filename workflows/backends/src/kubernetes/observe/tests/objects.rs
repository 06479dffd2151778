//! The slim forms of objects as API servers 1.34 to 1.37 and Kueue 0.17 show them.

use super::names;
use crate::kubernetes::observe::decode;
use serde_json::{Value, json};
use store::Timestamp;
use workflows::observed::{Containers, PodEnd, PodObject, PodPhase, Readiness, Uid};

const UID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

fn pod_with(spec: &Value, status: &Value) -> PodObject {
    let object = json!({
        "metadata": { "name": "train-0", "namespace": "t-acme--prod", "uid": UID, "resourceVersion": "1009" },
        "spec": spec,
        "status": status,
    });
    decode::pod(&object, &names()).unwrap()
}

#[test]
fn a_pod_keeps_what_decides_about_its_gpus() {
    let object = json!({
        "metadata": {
            "name": "train-0-x7k2p", "namespace": "t-acme--prod", "uid": UID, "resourceVersion": "1009",
            "labels": { "tenure.dev/workload": "train" },
            "annotations": { "kueue.x-k8s.io/workload": "job-train-5f2c1", "tenure.dev/decision": "adm-7" },
            "ownerReferences": [{ "kind": "Job", "uid": "9a4f6c1e-0000-4000-8000-000000000001" }],
            "deletionTimestamp": "2026-11-27T10:00:00Z",
        },
        "spec": {
            "nodeName": "gpu-0",
            "containers": [
                { "resources": { "limits": { "nvidia.com/gpu": "2", "cpu": "4" }, "requests": { "nvidia.com/gpu": "2" } } },
                { "resources": { "limits": { "nvidia.com/gpu": "1" } } },
            ],
            "initContainers": [{ "restartPolicy": "Always", "resources": { "requests": { "nvidia.com/gpu": "1" } } }],
            "resourceClaims": [{ "name": "gpu", "resourceClaimTemplateName": "one-gpu" }],
        },
        "status": {
            "phase": "Running", "startTime": "2026-11-27T09:00:00Z",
            "containerStatuses": [{ "state": { "running": {} } }, { "state": { "waiting": {} } }],
            "initContainerStatuses": [{ "state": { "running": {} } }],
        },
    });

    let pod = decode::pod(&object, &names()).unwrap();

    assert_eq!((pod.uid, pod.version, pod.phase), (Uid::of(UID), 1009, PodPhase::Running));
    assert_eq!((pod.gpus, pod.node.as_deref(), pod.profile.as_deref()), (4, Some("gpu-0"), None));
    assert_eq!(pod.containers, Containers { waiting: 1, running: 2, terminated: 0 });
    assert_eq!((pod.workload.as_deref(), pod.decision.as_deref()), (Some("train"), Some("adm-7")));
    assert_eq!(*pod.owners, [Uid::of("9a4f6c1e-0000-4000-8000-000000000001")]);
    assert_eq!(pod.claims.iter().map(|claim| &**claim).collect::<Vec<_>>(), ["gpu"]);
    let hour = Timestamp(1_795_770_000_000);
    assert_eq!((pod.started, pod.deletion), (Some(hour), Some(Timestamp(hour.0 + 3_600_000))));
}

#[test]
fn a_pod_of_slices_has_their_profile_and_their_number() {
    let spec = json!({ "containers": [{ "resources": { "limits": { "nvidia.com/mig-1g.10gb": "3" } } }] });
    let pod = pod_with(&spec, &json!({ "phase": "Pending" }));
    assert_eq!((pod.gpus, pod.profile.as_deref(), pod.node), (3, Some("1g.10gb"), None));
}

/// C-15, C-19, C-31.
#[test]
fn only_the_kubelets_word_proves_the_end_of_a_pod() {
    let running = json!([{ "state": { "running": {} } }]);
    let ended = json!([{ "state": { "terminated": { "exitCode": 137 } } }]);
    let waiting = json!([{ "state": { "waiting": { "reason": "PodInitializing" } } }]);
    let cases = [
        (json!({ "phase": "Failed", "containerStatuses": ended }), PodEnd::Proven),
        (json!({ "phase": "Succeeded", "containerStatuses": ended }), PodEnd::Proven),
        (json!({ "phase": "Failed", "containerStatuses": running, "reason": "NodeLost" }), PodEnd::Unproven),
        (json!({ "phase": "Failed", "reason": "UnexpectedAdmissionError" }), PodEnd::Proven),
        (json!({ "phase": "Failed", "reason": "OutOfnvidia.com/gpu" }), PodEnd::Proven),
        (json!({ "phase": "Failed", "reason": "DeletionByPodGC" }), PodEnd::Unproven),
        (json!({ "phase": "Failed", "containerStatuses": waiting }), PodEnd::Unproven),
        (
            json!({ "phase": "Failed", "containerStatuses": waiting, "initContainerStatuses": ended }),
            PodEnd::Proven,
        ),
        (json!({ "phase": "Running", "containerStatuses": ended }), PodEnd::Lives),
        (json!({ "phase": "Unknown", "containerStatuses": running }), PodEnd::Lives),
        (json!({}), PodEnd::Lives),
    ];
    for (status, end) in cases {
        assert_eq!(pod_with(&json!({}), &status).end(), end, "{status}");
    }
}

#[test]
fn a_node_keeps_machine_boot_readiness_and_gpus_and_offers_nothing_while_its_layout_changes() {
    let node = |labels: Value, ready: &str| {
        let object = json!({
            "metadata": { "name": "gpu-0", "uid": UID, "resourceVersion": "7", "labels": labels },
            "spec": {
                "unschedulable": true,
                "taints": [{ "key": "tenure.dev/tenant", "value": "acme", "effect": "NoSchedule" }],
            },
            "status": {
                "nodeInfo": { "systemUUID": "4c4c4544-0042", "bootID": "b07c8d4e" },
                "conditions": [{ "type": "Ready", "status": ready }],
                "allocatable": { "cpu": "64", "nvidia.com/gpu": "8", "nvidia.com/mig-1g.10gb": "7" },
            },
        });
        decode::node(&object, &names()).unwrap()
    };
    let found = node(json!({ "nvidia.com/cuda.driver-version.full": "570.86.15" }), "True");
    assert_eq!(
        (&*found.system_uuid, &*found.boot_id, found.readiness),
        ("4c4c4544-0042", "b07c8d4e", Readiness::Ready)
    );
    let gpus: Vec<_> = found.allocatable.iter().map(|(resource, count)| (&**resource, *count)).collect();
    assert_eq!(gpus, [("nvidia.com/gpu", 8), ("nvidia.com/mig-1g.10gb", 7)]);
    assert_eq!((&*found.layout, &*found.driver, found.cordoned), ("", "570.86.15", true));
    assert_eq!(&*found.taints[0], "tenure.dev/tenant=acme:NoSchedule");
    assert_eq!(node(json!({}), "False").readiness, Readiness::NotReady);
    assert_eq!(node(json!({}), "Unknown").readiness, Readiness::Silent);
    for (state, layout) in [("success", "all-1g.10gb"), ("pending", "changing"), ("failed", "changing")] {
        let labels = json!({ "nvidia.com/mig.config": "all-1g.10gb", "nvidia.com/mig.config.state": state });
        assert_eq!(&*node(labels, "True").layout, layout);
    }
}

#[test]
fn a_workload_reserves_what_its_flavors_count_and_nothing_without_quota() {
    let workload = |reserved: &str| {
        let object = json!({
            "metadata": { "name": "job-train-5f2c1", "namespace": "t-acme--prod", "uid": UID, "resourceVersion": "12" },
            "spec": { "queueName": "default", "active": false },
            "status": {
                "conditions": [{ "type": "QuotaReserved", "status": reserved }, { "type": "Evicted", "status": "True" }],
                "admission": { "clusterQueue": "b", "podSetAssignments": [
                    { "name": "main", "flavors": { "nvidia.com/gpu": "h100", "cpu": "cpu" }, "resourceUsage": { "nvidia.com/gpu": "6", "cpu": "8" } },
                    { "name": "aux", "flavors": { "nvidia.com/gpu": "a100" }, "resourceUsage": { "nvidia.com/gpu": "2" } },
                ] },
            },
        });
        decode::workload(&object, &names()).unwrap()
    };
    let found = workload("True");
    assert!(!found.active && found.quota_reserved && found.evicted && !found.admitted);
    assert_eq!((&*found.queue, &*found.amounts[1].flavor), ("default", "a100"));
    assert_eq!(found.reserved("nvidia.com/gpu").map(|reserved| reserved.count), Some(8));
    assert_eq!(workload("False").reserved("nvidia.com/gpu"), None);
}

#[test]
fn an_object_without_a_uid_is_not_decoded() {
    let object = json!({ "kind": "Pod", "metadata": { "name": "train-0" } });
    let errors = [
        decode::pod(&object, &names()).map(drop),
        decode::node(&object, &names()).map(drop),
        decode::workload(&object, &names()).map(drop),
    ];
    for error in errors {
        assert_eq!(error.unwrap_err(), "Pod \"train-0\" has no uid");
    }
}
