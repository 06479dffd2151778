//! Decodes objects of the API server to their slim forms. Total except for objects without a UID.

use crate::kubernetes::{
    labels::{LabelNames, SLICE, annotation, at, label, text, uid, version},
    objects::parse::quantity,
    pods::{asked, condition, is_so, name},
};
use chrono::DateTime;
use serde_json::Value;
use store::Timestamp;
use workflows::observed::{
    Containers, NodeObject, PodObject, PodPhase, Readiness, ReservedAmount, Uid, WorkloadObject,
};

/// The annotation by which Kueue names a pod's workload.
const OF_WORKLOAD: &str = "kueue.x-k8s.io/workload";
/// The labels of NVIDIA's GPU operator.
const LAYOUT: &str = "nvidia.com/mig.config";
const LAYOUT_STATE: &str = "nvidia.com/mig.config.state";
const DRIVER: &str = "nvidia.com/cuda.driver-version.full";
/// The layout of a node whose partition is not complete. It offers nothing.
const CHANGING: &str = "changing";
/// The reasons with which a kubelet rejects a pod before a container starts.
const REJECTED: [&str; 7] = [
    "UnexpectedAdmissionError",
    "NodeAffinity",
    "NodeName",
    "NodePorts",
    "TopologyAffinityError",
    "PodOSNotSupported",
    "PodOSSelectorNodeLabelDoesNotMatch",
];

/// The names of labels and resources in a cluster.
#[derive(Clone, Debug)]
pub(super) struct Names {
    workload: String,
    decision: String,
    gpu: String,
}

impl Names {
    pub(super) fn new(marks: &LabelNames, gpu: &str) -> Self {
        Self { workload: marks.workload(), decision: marks.decision(), gpu: gpu.to_owned() }
    }

    /// Returns true for GPUs and slices.
    fn is_gpu(&self, resource: &str) -> bool {
        resource == self.gpu || resource.starts_with(SLICE)
    }
}

/// Returns the resource version as a number; 0 if it is none.
fn number(object: &Value) -> u64 {
    version(object).parse().unwrap_or(0)
}

fn identity(object: &Value) -> Result<Uid, String> {
    match uid(object) {
        "" => Err(format!("{} {:?} has no uid", text(object, &["kind"]), name(object))),
        uid => Ok(Uid::of(uid)),
    }
}

fn list<'a>(object: &'a Value, path: &[&str]) -> impl Iterator<Item = &'a Value> + use<'a> {
    at(object, path).and_then(Value::as_array).into_iter().flatten()
}

fn time(object: &Value, path: &[&str]) -> Option<Timestamp> {
    let time = DateTime::parse_from_rfc3339(text(object, path)).ok()?;
    u64::try_from(time.timestamp_millis()).ok().map(Timestamp)
}

fn owners(object: &Value) -> Box<[Uid]> {
    list(object, &["metadata", "ownerReferences"]).map(|owner| Uid::of(text(owner, &["uid"]))).collect()
}

/// Decodes a node.
pub(super) fn node(object: &Value, names: &Names) -> Result<NodeObject, String> {
    let info = |field: &str| text(object, &["status", "nodeInfo", field]).into();
    let readiness = match condition(object, "Ready").map(|ready| text(ready, &["status"])) {
        Some("True") => Readiness::Ready,
        Some("False") => Readiness::NotReady,
        Some(_) | None => Readiness::Silent,
    };
    let taint = |taint: &Value| {
        let part = |field: &str| text(taint, &[field]).to_owned();
        format!("{}={}:{}", part("key"), part("value"), part("effect")).into()
    };
    let allocatable = at(object, &["status", "allocatable"]).and_then(Value::as_object);
    let allocatable = allocatable.into_iter().flatten().filter(|(resource, _)| names.is_gpu(resource));
    let amount = |amount: &Value| amount.as_str().and_then(quantity).or(amount.as_u64()).unwrap_or(0);
    let layout = match (label(object, LAYOUT), label(object, LAYOUT_STATE)) {
        (None, _) => "",
        (Some(layout), None | Some("success")) => layout,
        (Some(_), Some(_)) => CHANGING,
    };
    Ok(NodeObject {
        uid: identity(object)?,
        version: number(object),
        name: name(object).into(),
        system_uuid: info("systemUUID"),
        boot_id: info("bootID"),
        readiness,
        cordoned: at(object, &["spec", "unschedulable"]) == Some(&Value::Bool(true)),
        taints: list(object, &["spec", "taints"]).map(taint).collect(),
        driver: label(object, DRIVER).unwrap_or_default().into(),
        layout: layout.into(),
        allocatable: allocatable.map(|(name, count)| (name.as_str().into(), amount(count))).collect(),
    })
}

/// Decodes a pod.
pub(super) fn pod(object: &Value, names: &Names) -> Result<PodObject, String> {
    let phase = match text(object, &["status", "phase"]) {
        "Pending" | "" => PodPhase::Pending,
        "Running" => PodPhase::Running,
        "Succeeded" => PodPhase::Succeeded,
        "Failed" => PodPhase::Failed,
        _ => PodPhase::Unknown,
    };
    let node = text(object, &["spec", "nodeName"]);
    let gpus = asked(object, |resource| names.is_gpu(resource));
    let workload = label(object, &names.workload).or_else(|| annotation(object, OF_WORKLOAD));
    let claims = list(object, &["spec", "resourceClaims"]).map(|claim| text(claim, &["name"]).into());
    Ok(PodObject {
        uid: identity(object)?,
        version: number(object),
        namespace: text(object, &["metadata", "namespace"]).into(),
        name: name(object).into(),
        owners: owners(object),
        node: (!node.is_empty()).then(|| node.into()),
        phase,
        deletion: time(object, &["metadata", "deletionTimestamp"]),
        containers: containers(object, phase),
        rejected: phase == PodPhase::Failed && is_rejected(object),
        gpus: u32::try_from(gpus).unwrap_or(u32::MAX),
        profile: profile(object),
        claims: claims.collect(),
        workload: workload.map(Into::into),
        decision: annotation(object, &names.decision).map(Into::into),
        started: time(object, &["status", "startTime"]),
    })
}

/// Counts the containers by state, with init and ephemeral containers.
fn containers(pod: &Value, phase: PodPhase) -> Containers {
    let mut count = Containers::default();
    let mut init_failed = false;
    for field in ["containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses"] {
        for status in list(pod, &["status", field]) {
            let state = at(status, &["state"]);
            let of = |kind: &str| state.and_then(|state| state.get(kind));
            if of("running").is_some() {
                count.running = count.running.saturating_add(1);
            } else if let Some(terminated) = of("terminated") {
                count.terminated = count.terminated.saturating_add(1);
                let code = terminated.get("exitCode").and_then(Value::as_i64);
                init_failed |= field == "initContainerStatuses" && code.is_some_and(|code| code != 0);
            } else {
                count.waiting = count.waiting.saturating_add(1);
            }
        }
    }
    // After a failed init container the others never start.
    if init_failed && phase == PodPhase::Failed {
        count.waiting = 0;
    }
    count
}

/// Returns true if the kubelet rejected the pod. A controller that gives up a pod of a lost node has other reasons.
fn is_rejected(pod: &Value) -> bool {
    let reason = text(pod, &["status", "reason"]);
    let no_status = list(pod, &["status", "containerStatuses"]).next().is_none();
    no_status && (REJECTED.contains(&reason) || reason.starts_with("OutOf"))
}

/// Returns the profile of the slices that a pod requests.
fn profile(pod: &Value) -> Option<Box<str>> {
    let containers = list(pod, &["spec", "containers"]).chain(list(pod, &["spec", "initContainers"]));
    let mut resources = containers.flat_map(|container| {
        let kinds = ["requests", "limits"].into_iter();
        kinds
            .filter_map(move |kind| at(container, &["resources", kind])?.as_object())
            .flat_map(|all| all.keys())
    });
    resources.find_map(|resource| resource.strip_prefix(SLICE)).map(Into::into)
}

/// Decodes a Kueue workload.
pub(super) fn workload(object: &Value, names: &Names) -> Result<WorkloadObject, String> {
    let mut amounts = Vec::new();
    for assigned in list(object, &["status", "admission", "podSetAssignments"]) {
        let usage = at(assigned, &["resourceUsage"]).and_then(Value::as_object);
        for (resource, amount) in usage.into_iter().flatten().filter(|(resource, _)| names.is_gpu(resource)) {
            amounts.push(ReservedAmount {
                flavor: text(assigned, &["flavors", resource]).into(),
                resource: resource.as_str().into(),
                count: amount.as_str().and_then(quantity).or(amount.as_u64()).unwrap_or(0),
            });
        }
    }
    Ok(WorkloadObject {
        uid: identity(object)?,
        version: number(object),
        namespace: text(object, &["metadata", "namespace"]).into(),
        name: name(object).into(),
        owners: owners(object),
        queue: text(object, &["spec", "queueName"]).into(),
        active: at(object, &["spec", "active"]) != Some(&Value::Bool(false)),
        quota_reserved: is_so(object, "QuotaReserved"),
        admitted: is_so(object, "Admitted"),
        evicted: is_so(object, "Evicted"),
        finished: is_so(object, "Finished"),
        amounts: amounts.into(),
        decision: annotation(object, &names.decision).map(Into::into),
    })
}
