//! Workloads of a simulated platform, and their GPUs.

use crate::simulated::{
    Request, Response, System, Verb,
    state::{Applied, Object, State},
};
use engine::ActionError;
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use workflows::{
    platform::{FoundObject, StartWorkload, codes},
    tenancy::layout_offers,
};

/// The kind of workloads.
pub(in crate::simulated) const WORKLOAD: &str = "Workload";
pub(in crate::simulated) const CLIENTS: &str = "GpuClients";
pub(in crate::simulated) const SCRUB: &str = "Scrub";
pub(in crate::simulated) const CHECKPOINT: &str = "Checkpoint";
/// The number of reads that still return the pods of an evicted workload.
const LOOKS_UNTIL_GONE: u32 = 1;
/// Memory of a simulated GPU: 80 GiB.
const GPU_BYTES: u64 = 80 << 30;

/// Returns the request that starts a workload outside of every step.
pub(in crate::simulated) fn beginning(start: &StartWorkload, name: &str) -> Request {
    let weight = start.service.then_some(100);
    Request {
        action: "StartWorkload".into(),
        step: format!("beginning of {name}"),
        key: format!("beginning of {name}"),
        epoch: 0,
        deadline_ms: 0,
        system: System::Kubernetes,
        cluster: start.workload.cluster.clone(),
        verb: Verb::Run,
        kind: WORKLOAD.into(),
        name: name.to_owned(),
        tenant: start.workload.tenant.clone(),
        spec: json!({
            "workspace": start.workload.workspace, "active": true, "pods": true, "gpus": start.gpus, "weight": weight,
            "profiles": start.profiles,
        }),
        precondition_uid: None,
        dry_run: false,
    }
}

/// Runs an operation on a workload or on GPUs, which changes the workload or returns a report.
pub(in crate::simulated) fn run(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    match request.kind.as_str() {
        WORKLOAD => {
            offered(state, request)?;
            Ok(change(state, request))
        }
        CHECKPOINT => Ok(checkpoint(state, request)),
        SCRUB => scrub(state, request),
        other => Err(ActionError::permanent(codes::REFUSED, format!("a {other} has no workloads"))),
    }
}

/// Rejects a start that a node does not offer: whole GPUs of a partitioned node, or slices of another profile. During a
/// change of the layout, the hardware's current layout counts.
fn offered(state: &State, request: &Request) -> Result<(), ActionError> {
    if request.spec.get("pods") != Some(&Value::Bool(true)) {
        return Ok(());
    }
    let profiles = request.spec.get("profiles");
    let nodes = request.spec.get("gpus").and_then(Value::as_object);
    for node in nodes.into_iter().flat_map(serde_json::Map::keys) {
        let layout = state.hardware_layout(&request.cluster, node);
        let profile = profiles.and_then(|all| all.get(node)?.as_str());
        if !layout_offers(layout, profile) {
            let asked = profile.map_or_else(|| "whole GPUs".to_owned(), |name| format!("slices of {name}"));
            let why = format!("node {node} of layout {layout} has no {asked}");
            return Err(ActionError::permanent(codes::NOT_OFFERED, why));
        }
    }
    Ok(())
}

/// Sets fields of a workload. Creates it only if it is started.
fn change(state: &mut State, request: &Request) -> Applied {
    let address = request.address();
    let starts = request.spec.get("pods") == Some(&Value::Bool(true));
    if !state.objects.contains_key(&address) {
        if !starts {
            return Applied::Nothing(Response::default());
        }
        let found = FoundObject {
            uid: state.next_uid(),
            tenant: request.tenant.clone(),
            step: request.step.clone(),
            spec: json!({}),
            terminating: false,
        };
        state
            .objects
            .insert(address.clone(), Object { found, action: request.action.clone(), reads_left: 0 });
    }
    let Some(object) = state.objects.get_mut(&address) else { return Applied::Nothing(Response::default()) };
    let before = object.found.spec.clone();
    if let (Value::Object(spec), Value::Object(changes)) = (&mut object.found.spec, &request.spec) {
        spec.extend(changes.clone());
        spec.retain(|_, value| !value.is_null());
    }
    object.found.terminating &= !starts;
    let response = Response { found: Some(object.found.clone()), value: Value::Null };
    let same = object.found.spec == before;
    state.note_seats(&address);
    if same { Applied::Nothing(response) } else { Applied::Effect(response) }
}

fn checkpoint(state: &mut State, request: &Request) -> Applied {
    let address = workload_address(&request.cluster, &request.name);
    let saved = Response { found: None, value: Value::Bool(true) };
    let Some(object) = state.objects.get_mut(&address) else { return Applied::Nothing(saved) };
    let Value::Object(spec) = &mut object.found.spec else { return Applied::Nothing(saved) };
    let before = spec.insert("checkpointed".into(), Value::Bool(true));
    if before == Some(Value::Bool(true)) { Applied::Nothing(saved) } else { Applied::Effect(saved) }
}

fn workload_address(cluster: &str, name: &str) -> String {
    format!("kubernetes/{cluster}/{WORKLOAD}/{name}")
}

/// Ends every workload of a tenant in a cluster, as draining a queue does.
pub(in crate::simulated) fn drain(state: &mut State, cluster: &str, tenant: &str) {
    let prefix = workload_address(cluster, "");
    state.objects.retain(|address, object| !address.starts_with(&prefix) || object.found.tenant != tenant);
}

/// Returns true if the request evicts a workload, which stays in its queue, instead of removing it.
pub(in crate::simulated) fn evicts(request: &Request) -> bool {
    request.kind == WORKLOAD && request.spec.get("evict") == Some(&Value::Bool(true))
}

/// Begins to end a workload's pods; by force, they are removed immediately.
pub(in crate::simulated) fn evict(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let address = request.address();
    let Some(object) = state.objects.get_mut(&address) else {
        return Ok(Applied::Nothing(Response::default()));
    };
    if request.precondition_uid.as_ref().is_some_and(|uid| *uid != object.found.uid) {
        let why = format!("{address} was replaced meanwhile");
        return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
    }
    let forced = request.spec.get("force") == Some(&Value::Bool(true));
    let scripted = request.spec.get("fault").is_some();
    if forced && scripted {
        let why = format!("the node under {address} still answers: fence it off first");
        return Err(ActionError::permanent(codes::NODE_ALIVE, why));
    }
    let Value::Object(spec) = &mut object.found.spec else {
        return Ok(Applied::Nothing(Response::default()));
    };
    let before = spec.insert("active".into(), Value::Bool(false));
    if forced {
        spec.insert("pods".into(), Value::Bool(false));
        spec.insert("gpus".into(), json!({}));
        spec.remove("clings");
        object.found.terminating = false;
        return Ok(Applied::Effect(Response::default()));
    }
    if before == Some(Value::Bool(false)) {
        return Ok(Applied::Nothing(Response::default()));
    }
    if scripted {
        spec.insert("clings".into(), Value::Bool(true));
    }
    object.found.terminating = true;
    object.reads_left = LOOKS_UNTIL_GONE;
    Ok(Applied::Effect(Response::default()))
}

/// Reads a workload, which advances the end of its pods. The flag is true if the state changed.
pub(in crate::simulated) fn look(object: &mut Object) -> bool {
    let clings = object.found.spec.get("clings") == Some(&Value::Bool(true));
    if !object.found.terminating || clings {
        return false;
    }
    if object.reads_left > 0 {
        object.reads_left -= 1;
        return true;
    }
    object.found.terminating = false;
    if let Value::Object(spec) = &mut object.found.spec {
        spec.insert("pods".into(), Value::Bool(false));
        spec.insert("gpus".into(), json!({}));
    }
    true
}

/// Returns the users of a node's GPUs: workloads with pods, including terminating ones.
pub(in crate::simulated) fn clients(state: &State, request: &Request) -> Value {
    let gpus: BTreeSet<u16> =
        request.spec.get("gpus").cloned().and_then(|v| serde_json::from_value(v).ok()).unwrap_or_default();
    let prefix = workload_address(&request.cluster, "");
    let on_them = |set: &Value| BTreeSet::<u16>::deserialize(set).is_ok_and(|set| !set.is_disjoint(&gpus));
    let open = state.seated(&request.name).filter(|(_, set)| on_them(set));
    let mut names: Vec<String> =
        open.filter_map(|(address, _)| address.strip_prefix(&prefix)).map(str::to_owned).collect();
    debug_assert_eq!(names, searched(state, request, &gpus), "nobody is overlooked");
    if request.spec.get("fault").is_some() {
        names.push("a leaked handle".into());
    }
    json!(names)
}

/// Returns the same from all objects, to check the index in debug builds.
fn searched(state: &State, request: &Request, gpus: &BTreeSet<u16>) -> Vec<String> {
    let prefix = workload_address(&request.cluster, "");
    let all = state.objects.range(prefix.clone()..).take_while(|(address, _)| address.starts_with(&prefix));
    let on_them = |object: &Object| {
        let set = object.on(&request.name).and_then(|set| BTreeSet::<u16>::deserialize(set).ok());
        set.is_some_and(|set| !set.is_disjoint(gpus))
    };
    let open = all.filter(|(_, object)| on_them(object));
    open.filter_map(|(address, _)| address.strip_prefix(&prefix)).map(str::to_owned).collect()
}

fn scrub(state: &State, request: &Request) -> Result<Applied, ActionError> {
    let Value::Array(open) = clients(state, request) else {
        return Ok(Applied::Nothing(Response::default()));
    };
    let gpus = request.spec.get("gpus").and_then(Value::as_array).map_or(0, Vec::len);
    if !open.is_empty() && request.spec.get("fault").is_none() {
        let why = format!("GPUs of {} are open: {}", request.name, json!(open));
        return Err(ActionError::transient(codes::GPU_BUSY, why));
    }
    let total = GPU_BYTES.saturating_mul(u64::try_from(gpus).unwrap_or(0));
    let covered = if request.spec.get("fault").is_some() { total / 2 } else { total / 100 * 97 };
    let report = json!({
        "level": request.spec.get("level"),
        "driver": "simulated: memory is cleared when it is freed",
        "covered_bytes": covered,
        "total_bytes": total,
        "leftovers": false,
    });
    Ok(Applied::Effect(Response { found: None, value: report }))
}
