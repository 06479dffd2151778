//! Objects that are applied, patched, read and deleted, and the layouts of GPUs.

use super::{
    Request, Response,
    state::{Done, Object, State},
};
use crate::actuators::{Found, GpuLayout, LayoutState, codes};
use engine::ActionError;
use serde_json::{Value, json};
use std::time::Duration;

/// The kind under which a node's layout is found.
pub(super) const LAYOUT: &str = "Layout";
/// What a node has before anybody sets a layout.
pub(super) const FACTORY: &str = "all-disabled";
/// How many reads see a namespace leaving, or a layout pending, before it is so.
const READS_UNTIL_DONE: u32 = 1;
const LOOK_AGAIN: Duration = Duration::from_secs(2);

/// How a node's GPUs are partitioned.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    profile: String,
    hardware: String,
    reads_left: u32,
    fault: Option<String>,
}

impl Layout {
    pub(super) fn is_factory(&self) -> bool {
        self.profile == FACTORY && self.hardware == FACTORY
    }

    pub(super) fn shown(&self) -> Value {
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

pub(super) fn set_layout(state: &mut State, request: &Request) -> Done {
    let wanted = request.spec.get("profile").and_then(Value::as_str).unwrap_or(FACTORY).to_owned();
    let fault = request.spec.get("fault").and_then(Value::as_str).map(ToOwned::to_owned);
    let before = state.layouts.get(&request.address());
    let hardware = before.map_or_else(|| FACTORY.to_owned(), |layout| layout.hardware.clone());
    if before.map_or(FACTORY, |layout| layout.profile.as_str()) == wanted {
        return Done::Nothing(Response::default());
    }
    let layout = Layout { profile: wanted, hardware, reads_left: READS_UNTIL_DONE, fault };
    state.layouts.insert(request.address(), layout);
    Done::Effect(Response::default())
}

/// Reads, which is also what lets asynchronous effects get on. The flag says whether one did.
pub(super) fn read(state: &mut State, request: &Request) -> (Result<Response, ActionError>, bool) {
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
        return (Ok(Response { found: Some(object.found.clone()), value: Value::Null }), false);
    }
    if object.reads_left == 0 {
        state.objects.remove(&address);
        return (Ok(Response::default()), true);
    }
    object.reads_left -= 1;
    (Ok(Response { found: Some(object.found.clone()), value: Value::Null }), true)
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

pub(super) fn apply(state: &mut State, request: &Request) -> Result<Done, ActionError> {
    let address = request.address();
    if let Some(object) = state.objects.get(&address) {
        let found = object.found.clone();
        if found.terminating {
            return Err(ActionError::pending(codes::TERMINATING, LOOK_AGAIN));
        }
        if found.tenant != request.tenant || found.spec != request.spec {
            let why = format!("{address} is there, of {:?}, and differs: it was left as it is", found.tenant);
            return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
        }
        return Ok(Done::Nothing(Response { found: Some(found), value: Value::Null }));
    }
    let found = Found {
        uid: state.next_uid(),
        tenant: request.tenant.clone(),
        step: request.step.clone(),
        spec: request.spec.clone(),
        terminating: false,
    };
    let object = Object { found: found.clone(), action: request.action.clone(), reads_left: 0 };
    state.objects.insert(address, object);
    Ok(Done::Effect(Response { found: Some(found), value: Value::Null }))
}

pub(super) fn patch(state: &mut State, request: &Request) -> Result<Done, ActionError> {
    let address = request.address();
    let Some(object) = state.objects.get_mut(&address).filter(|object| !object.found.terminating) else {
        return Err(ActionError::permanent(codes::OBJECT_MISSING, format!("there is no {address}")));
    };
    if object.found.tenant != request.tenant {
        let why = format!("{address} is of {:?}", object.found.tenant);
        return Err(ActionError::permanent(codes::OBJECT_FOREIGN, why));
    }
    let before = object.found.spec.clone();
    if let (Value::Object(spec), Value::Object(changes)) = (&mut object.found.spec, &request.spec) {
        spec.extend(changes.clone());
    }
    let response = Response { found: Some(object.found.clone()), value: Value::Null };
    Ok(if object.found.spec == before { Done::Nothing(response) } else { Done::Effect(response) })
}

pub(super) fn delete(state: &mut State, request: &Request) -> Result<Done, ActionError> {
    let address = request.address();
    let Some(object) = state.objects.get_mut(&address) else { return Ok(Done::Nothing(Response::default())) };
    if request.precondition_uid.as_ref().is_some_and(|uid| *uid != object.found.uid) {
        return Err(ActionError::transient(
            codes::OBJECT_CHANGED,
            format!("{address} was replaced meanwhile"),
        ));
    }
    if object.found.terminating {
        return Ok(Done::Nothing(Response::default()));
    }
    let held = |field: &str| object.found.spec.get(field).and_then(Value::as_u64).unwrap_or(0);
    if held("objects") > 0 {
        return Err(ActionError::permanent(codes::BUCKET_NOT_EMPTY, format!("{address} holds objects")));
    }
    if held("jobs") > 0 {
        return Err(ActionError::permanent(codes::ACCOUNT_IN_USE, format!("{address} has jobs")));
    }
    if request.kind == "Namespace" {
        object.found.terminating = true;
        object.reads_left = READS_UNTIL_DONE;
    } else {
        state.objects.remove(&address);
    }
    Ok(Done::Effect(Response::default()))
}
