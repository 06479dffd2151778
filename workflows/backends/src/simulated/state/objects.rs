//! Objects that are applied, patched, read and deleted, and GPU layouts.

use crate::simulated::{
    Request, Response, System,
    state::{Applied, Object, State, machines},
};
use engine::ActionError;
use serde_json::{Value, json};
use std::time::Duration;
use workflows::platform::{
    EmptyProgress, FieldSwap, FoundObject, GpuLayout, LayoutState, TenantResource, codes,
};

/// The kind of a node's layout.
pub(in crate::simulated) const LAYOUT: &str = "Layout";
/// The layout of a node before the first change.
pub(in crate::simulated) const FACTORY: &str = "all-disabled";
/// The number of reads that still return a deleted namespace or a pending layout.
const READS_UNTIL_DONE: u32 = 1;
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// Kinds whose deletion takes several reads.
const SLOW: [&str; 4] = ["Namespace", "Volume", "Snapshot", "Repository"];
/// The contents of a bucket, all of which must be removed before its deletion.
const HELD: [&str; 4] = ["versions", "markers", "uploads", "objects"];
/// The number of entries that one call removes, as in S3.
const PAGE: u64 = 1_000;

/// The layout of a node's GPUs.
#[derive(Clone, Debug)]
pub(in crate::simulated) struct Layout {
    profile: String,
    hardware: String,
    reads_left: u32,
    fault: Option<String>,
}

impl Layout {
    pub(in crate::simulated) fn is_factory(&self) -> bool {
        self.profile == FACTORY && self.hardware == FACTORY
    }

    pub(in crate::simulated) fn shown(&self) -> Value {
        json!({ "profile": self.profile, "hardware": self.hardware })
    }

    fn seen(&self) -> GpuLayout {
        let wedged = self.fault.as_deref() == Some("wedged");
        let failed = self.fault.as_deref() == Some("failed");
        let state = match (failed, self.profile == self.hardware) {
            (true, _) => LayoutState::Failed,
            (false, true) => LayoutState::Success,
            (false, false) => LayoutState::Pending,
        };
        GpuLayout {
            profile: self.profile.clone(),
            state,
            allocatable: self.hardware.clone(),
            hardware: self.hardware.clone(),
            manager_active: !wedged,
        }
    }
}

pub(in crate::simulated) fn set_layout(state: &mut State, request: &Request) -> Applied {
    let wanted = request.spec.get("profile").and_then(Value::as_str).unwrap_or(FACTORY).to_owned();
    let fault = request.spec.get("fault").and_then(Value::as_str).map(ToOwned::to_owned);
    let before = state.layouts.get(&request.address());
    let hardware = before.map_or_else(|| FACTORY.to_owned(), |layout| layout.hardware.clone());
    if before.map_or(FACTORY, |layout| layout.profile.as_str()) == wanted {
        return Applied::Nothing(Response::default());
    }
    let layout = Layout { profile: wanted, hardware, reads_left: READS_UNTIL_DONE, fault };
    state.layouts.insert(request.address(), layout);
    Applied::Effect(Response::default())
}

/// Reads an object, which also advances asynchronous changes. The flag is true if the state changed.
pub(in crate::simulated) fn read(
    state: &mut State,
    request: &Request,
) -> (Result<Response, ActionError>, bool) {
    let address = request.address();
    if request.kind == LAYOUT {
        return read_layout(state, &address);
    }
    let Some(object) = state.objects.get_mut(&address) else { return (Ok(Response::default()), false) };
    if request.kind == super::workloads::WORKLOAD {
        let moved = super::workloads::look(object);
        return (Ok(Response { found: Some(object.found.clone()), value: Value::Null }), moved);
    }
    if !object.found.terminating {
        let seen = object.found.clone();
        let moved = drain(&mut object.found.spec);
        return (Ok(Response { found: Some(seen), value: Value::Null }), moved);
    }
    // An object with a finalizer stays until a caller removes the finalizer.
    if object.found.spec.get("finalizers").is_some() {
        return (Ok(Response { found: Some(object.found.clone()), value: Value::Null }), false);
    }
    if object.reads_left == 0 {
        state.objects.remove(&address);
        if request.kind == "Namespace" {
            let within = limits_of(&request.cluster, &request.name);
            state.objects.retain(|address, _| !address.starts_with(&within));
        }
        return (Ok(Response::default()), true);
    }
    object.reads_left -= 1;
    (Ok(Response { found: Some(object.found.clone()), value: Value::Null }), true)
}

/// Returns the prefix of a namespace's limit ranges. Surveys do not list them; they are deleted with the namespace.
fn limits_of(cluster: &str, namespace: &str) -> String {
    format!("kubernetes/{cluster}/LimitRange/{namespace}/")
}

impl State {
    /// Returns the current layout of a node's hardware.
    pub(in crate::simulated) fn hardware_layout(&self, cluster: &str, node: &str) -> &str {
        let system: &str = System::Gpus.into();
        let address = format!("{system}/{cluster}/{LAYOUT}/{node}");
        self.layouts.get(&address).map_or(FACTORY, |layout| layout.hardware.as_str())
    }
}

fn read_layout(state: &mut State, address: &str) -> (Result<Response, ActionError>, bool) {
    let factory =
        Layout { profile: FACTORY.to_owned(), hardware: FACTORY.to_owned(), reads_left: 0, fault: None };
    let Some(layout) = state.layouts.get_mut(address) else { return (answer(&factory.seen()), false) };
    let working = layout.profile != layout.hardware && layout.fault.is_none();
    if working && layout.reads_left == 0 {
        layout.hardware = layout.profile.clone();
    } else if working {
        layout.reads_left -= 1;
    }
    (answer(&layout.seen()), working)
}

fn answer(layout: &GpuLayout) -> Result<Response, ActionError> {
    let value = serde_json::to_value(layout).map_err(|e| ActionError::permanent(codes::UNREADABLE, e))?;
    Ok(Response { found: None, value })
}

pub(in crate::simulated) fn apply(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let address = request.address();
    if let Some(object) = state.objects.get(&address) {
        let found = object.found.clone();
        if found.terminating {
            return Err(ActionError::pending(codes::TERMINATING, LOOK_AGAIN));
        }
        if found.tenant != request.tenant || found.spec != request.spec {
            let why =
                format!("{address} exists, belongs to {:?} and differs, so it was not changed", found.tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        return Ok(Applied::Nothing(Response { found: Some(found), value: Value::Null }));
    }
    let found = FoundObject {
        uid: state.next_uid(),
        tenant: request.tenant.clone(),
        step: request.step.clone(),
        spec: request.spec.clone(),
        terminating: false,
    };
    let object = Object { found: found.clone(), action: request.action.clone(), reads_left: 0 };
    state.objects.insert(address.clone(), object);
    state.note_seats(&address);
    if request.kind == "Credentials" {
        machines::used(state, &request.tenant);
    }
    Ok(Applied::Effect(Response { found: Some(found), value: Value::Null }))
}

pub(in crate::simulated) fn patch(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let address = request.address();
    let Some(object) = state.objects.get_mut(&address).filter(|object| !object.found.terminating) else {
        return Err(ActionError::permanent(codes::OBJECT_MISSING, format!("{address} does not exist")));
    };
    if object.found.tenant != request.tenant {
        let why = format!("{address} belongs to {:?}", object.found.tenant);
        return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
    }
    let before = object.found.spec.clone();
    let ends_work =
        request.kind == "ClusterQueue" && request.spec.get("stopPolicy") == Some(&json!("HoldAndDrain"));
    if let (Value::Object(spec), Value::Object(changes)) = (&mut object.found.spec, &request.spec) {
        for (field, value) in changes {
            match value {
                Value::Null => drop(spec.remove(field)),
                value => drop(spec.insert(field.clone(), value.clone())),
            }
        }
    }
    let response = Response { found: Some(object.found.clone()), value: Value::Null };
    let same = object.found.spec == before;
    state.note_seats(&address);
    if ends_work {
        let admitted = format!("kubernetes/{}/Workload/{}/", request.cluster, request.name);
        state.objects.retain(|address, _| !address.starts_with(&admitted));
    }
    Ok(if same { Applied::Nothing(response) } else { Applied::Effect(response) })
}

/// Compares and sets one field; null means an absent field.
pub(in crate::simulated) fn swap(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let address = request.address();
    let swap: FieldSwap = serde_json::from_value(request.spec.clone())
        .map_err(|e| ActionError::permanent(codes::UNREADABLE, format!("change of {address}: {e}")))?;
    let Some(object) = state.objects.get_mut(&address).filter(|object| !object.found.terminating) else {
        return Err(ActionError::permanent(codes::OBJECT_MISSING, format!("{address} does not exist")));
    };
    if object.found.tenant != request.tenant {
        let why = format!("{address} belongs to {:?}", object.found.tenant);
        return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
    }
    let now = object.found.spec.get(&swap.field).cloned().unwrap_or(Value::Null);
    if now != swap.from {
        let why = format!("{} of {address} was changed meanwhile", swap.field);
        return Err(ActionError::transient(codes::OBJECT_CHANGED, why));
    }
    if let Value::Object(spec) = &mut object.found.spec {
        match &swap.to {
            Value::Null => drop(spec.remove(&swap.field)),
            to => drop(spec.insert(swap.field.clone(), to.clone())),
        }
    }
    let response = Response { found: Some(object.found.clone()), value: Value::Null };
    state.note_seats(&address);
    Ok(if now == swap.to { Applied::Nothing(response) } else { Applied::Effect(response) })
}

pub(in crate::simulated) fn delete(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let address = request.address();
    let Some(object) = state.objects.get_mut(&address) else {
        return Ok(Applied::Nothing(Response::default()));
    };
    if request.precondition_uid.as_ref().is_some_and(|uid| *uid != object.found.uid) {
        return Err(ActionError::transient(
            codes::OBJECT_CHANGED,
            format!("{address} was replaced meanwhile"),
        ));
    }
    if object.found.terminating {
        return Ok(Applied::Nothing(Response::default()));
    }
    let held = |field: &str| object.found.spec.get(field).and_then(Value::as_u64).unwrap_or(0);
    if HELD.iter().any(|field| held(field) > 0) || held("locked") > 0 {
        return Err(ActionError::permanent(codes::BUCKET_NOT_EMPTY, format!("{address} has objects")));
    }
    if held("jobs") > 0 {
        return Err(ActionError::permanent(codes::ACCOUNT_IN_USE, format!("{address} has jobs")));
    }
    if let Some(until) = object.found.spec.get("kept_until") {
        return Err(ActionError::permanent(codes::REFUSED, format!("{address} is retained until {until}")));
    }
    if let (Some(fault), Value::Object(spec)) = (request.spec.get("fault"), &mut object.found.spec) {
        spec.insert("finalizers".into(), json!([fault]));
    }
    let stays = object.found.spec.get("finalizers").is_some();
    if stays || SLOW.contains(&request.kind.as_str()) {
        object.found.terminating = true;
        object.reads_left = READS_UNTIL_DONE;
    } else {
        state.objects.remove(&address);
    }
    Ok(Applied::Effect(Response::default()))
}

/// Returns all objects of a tenant in a system, with their places.
pub(in crate::simulated) fn list(state: &State, request: &Request) -> Result<Response, ActionError> {
    let system: &str = request.system.into();
    let prefix = format!("{system}/");
    // As on a real server, objects that are deleted with their namespace are not listed.
    let of = |at: &str, found: &FoundObject| found.tenant == request.tenant && !at.contains("/LimitRange/");
    let objects =
        state.objects.iter().filter(|(at, object)| at.starts_with(&prefix) && of(at, &object.found));
    let mut listed: Vec<(String, FoundObject)> =
        objects.map(|(address, object)| (address.clone(), object.found.clone())).collect();
    let nodes = machines::of_tenant(state, &request.tenant);
    listed.extend(nodes.into_iter().filter(|at| at.starts_with(&prefix)).map(|address| {
        let (tenant, spec) = (request.tenant.clone(), json!({}));
        let found =
            FoundObject { uid: address.clone(), tenant, step: String::new(), spec, terminating: false };
        (address, found)
    }));
    let named =
        listed.into_iter().filter_map(|(at, found)| Some((at.parse::<TenantResource>().ok()?, found)));
    let value = serde_json::to_value(named.collect::<Vec<_>>());
    Ok(Response { found: None, value: value.map_err(|e| ActionError::permanent(codes::UNREADABLE, e))? })
}

/// Removes one page of a bucket's contents; locked objects stay.
pub(in crate::simulated) fn empty(state: &mut State, request: &Request) -> Result<Applied, ActionError> {
    let address = request.address();
    let there = state.objects.get_mut(&address);
    let same = |object: &&mut Object| request.precondition_uid.as_ref() == Some(&object.found.uid);
    let Some(object) = there.filter(same) else {
        return Err(ActionError::transient(
            codes::OBJECT_CHANGED,
            format!("{address} was replaced meanwhile"),
        ));
    };
    let mut room = PAGE;
    let mut left = 0;
    let Value::Object(spec) = &mut object.found.spec else {
        return Err(ActionError::permanent(codes::UNREADABLE, format!("{address} has no content")));
    };
    for field in HELD {
        let Some(held) = spec.get(field).and_then(Value::as_u64) else { continue };
        let removed = held.min(room);
        room -= removed;
        left += held - removed;
        spec.insert(field.into(), json!(held - removed));
    }
    let locked = spec.get("locked").and_then(Value::as_u64).unwrap_or(0);
    let locked_until = spec.get("locked_until").and_then(Value::as_str).map(str::to_owned);
    let emptied = EmptyProgress { removed: PAGE - room, left, locked, locked_until };
    let value = serde_json::to_value(emptied).map_err(|e| ActionError::permanent(codes::UNREADABLE, e))?;
    Ok(Applied::Effect(Response { found: None, value }))
}

/// Ends one workload of a draining queue at each read.
fn drain(spec: &mut Value) -> bool {
    let drains = spec.get("stopPolicy") == Some(&json!("HoldAndDrain"))
        || spec.get("admits") == Some(&json!("nothing"));
    let Value::Object(spec) = spec else { return false };
    let mut moved = false;
    for field in ["running", "jobs"] {
        if let Some(count) = spec.get(field).and_then(Value::as_u64).filter(|count| drains && *count > 0) {
            spec.insert(field.into(), json!(count - 1));
            moved = true;
        }
    }
    moved
}
