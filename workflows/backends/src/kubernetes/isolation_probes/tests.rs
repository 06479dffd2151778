//! The probes' pods, and the results derived from their exit codes.

use crate::kubernetes::labels::LabelNames;
use crate::kubernetes::{
    isolation_probes::{
        foreign_pod::{ForeignPodResult, foreign_pod_result, taint_of},
        probe_pod::{Planned, Task, address, name, pod},
        traffic::{Outcome, verdict},
    },
    pods::asked,
};
use serde_json::{Value, json};
use std::time::Duration;
use store::Epoch;
use workflows::platform::CallMetadata;

fn stamp(key: &str) -> CallMetadata {
    CallMetadata {
        action: "Test",
        step: key.into(),
        key: key.into(),
        epoch: Epoch(1),
        undo: false,
        deadline: Duration::from_secs(1),
        dry_run: false,
    }
}

#[test]
fn a_probe_that_fails_its_own_control_gives_no_verdict() {
    let (refused, through) = (Outcome::Through(0), Outcome::Through(3));
    assert_eq!(verdict(refused, refused), Ok(true));
    assert_eq!(verdict(through, refused), Ok(false));
    assert_eq!(verdict(Outcome::NoControl, through), Ok(false), "through is through");
    for nothing in [Outcome::NoControl, Outcome::Else, Outcome::Through(1)] {
        assert!(verdict(nothing, refused).is_err() && verdict(refused, nothing).is_err(), "{nothing:?}");
    }
    // No exit code of an image without the required tools counts as a result.
    for code in [None, Some(0), Some(1), Some(9), Some(14), Some(126), Some(127), Some(137)] {
        assert_eq!(Outcome::of(code), Outcome::Else, "{code:?}");
    }
    assert_eq!(Outcome::of(Some(10)), refused);
}

#[test]
fn only_a_rejection_because_of_the_taint_proves_that_foreign_pods_are_excluded() {
    let pod = |reason: &str, message: &str| {
        let condition =
            json!({ "type": "PodScheduled", "status": "False", "reason": reason, "message": message });
        json!({ "spec": {}, "status": { "conditions": [condition] } })
    };
    let taint = "0/1 nodes are available: 1 node(s) had untolerated taint {tenure.dev/tenant: acme}.";
    let off = foreign_pod_result(&pod("Unschedulable", taint), "tenure.dev/tenant");
    assert_eq!(off, Some(ForeignPodResult::Off(taint.into())));
    // Current schedulers do not name the taint: it is looked up on the node.
    let unnamed =
        "0/1 nodes are available: 1 node(s) had untolerated taint(s). preemption: 0/1 nodes are available.";
    let off = foreign_pod_result(&pod("Unschedulable", unnamed), "tenure.dev/tenant");
    assert_eq!(off, Some(ForeignPodResult::Off(unnamed.into())));
    let node = |effect: &str| json!({ "spec": { "taints": [{ "key": "tenure.dev/tenant", "value": "acme", "effect": effect }] } });
    assert_eq!(
        taint_of(&node("NoSchedule"), "tenure.dev/tenant").as_deref(),
        Some("tenure.dev/tenant: acme")
    );
    for other in [node("PreferNoSchedule"), json!({ "spec": {} })] {
        assert_eq!(taint_of(&other, "tenure.dev/tenant"), None, "{other}");
    }
    for (reason, message) in
        [("Unschedulable", "0/1 nodes are available: 1 Insufficient cpu."), ("SchedulingGated", taint)]
    {
        assert_eq!(
            foreign_pod_result(&pod(reason, message), "tenure.dev/tenant"),
            None,
            "{reason} {message}"
        );
    }
    assert_eq!(foreign_pod_result(&json!({}), "tenure.dev/tenant"), None);
    let on = json!({ "spec": { "nodeName": "gpu-1" } });
    assert_eq!(foreign_pod_result(&on, "tenure.dev/tenant"), Some(ForeignPodResult::On("gpu-1".into())));
}

#[test]
fn a_probe_pod_ends_by_itself_and_has_the_label_of_its_step() {
    let marks = LabelNames::new("tenure.dev");
    let planned = Planned {
        namespace: "tenure-probes".into(),
        name: name(&stamp("e-1/Probing/0/3"), "reach-out"),
        tenant: "acme".into(),
        task: Task::Reach { control: address("10.0.0.1"), target: address("fd00::1") },
        tolerates: None,
        goes_with: Some(("t-acme--prod".into(), "u-1".into())),
    };
    let made =
        pod(&planned, "registry.example/busybox@sha256:0", "traffic", &stamp("e-1/Probing/0/3"), &marks);

    assert_ne!(planned.name, name(&stamp("e-1/Probing/0/4"), "reach-out"), "another step has other pods");
    assert!(planned.name.len() <= 63);
    assert_eq!(made["spec"]["activeDeadlineSeconds"], 120);
    assert_eq!(made["metadata"]["ownerReferences"][0]["uid"], "u-1");
    assert_eq!(made["metadata"]["annotations"]["tenure.dev/step"], "e-1/Probing/0/3");
    assert_eq!(made["spec"]["tolerations"], Value::Null);
    assert_eq!(made["spec"]["containers"][0]["env"][1]["value"], "[fd00::1]:8080");
}

#[test]
fn the_requests_of_a_pod_are_counted_like_the_scheduler_counts_them() {
    let gpus = |n: u64| json!({ "resources": { "limits": { "nvidia.com/gpu": n.to_string(), "cpu": "1" } } });
    let sidecar = |n: u64| {
        let mut one = gpus(n);
        one["restartPolicy"] = json!("Always");
        one
    };
    let pod = |before: Value, at_once: Value| json!({ "spec": { "initContainers": before, "containers": at_once } });
    let count = |pod: &Value| asked(pod, |resource| resource == "nvidia.com/gpu");

    assert_eq!(count(&pod(json!([]), json!([gpus(2), gpus(1)]))), 3);
    assert_eq!(count(&pod(json!([gpus(4), gpus(1)]), json!([gpus(2)]))), 4);
    assert_eq!(count(&pod(json!([sidecar(1)]), json!([gpus(2)]))), 3);
    assert_eq!(count(&json!({})), 0);
}
