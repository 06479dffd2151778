//! GPU health and recovery on a simulated platform: healthy unless a script says otherwise.

use crate::simulated::{
    Request, Response, System, Verb,
    state::{Applied, State, workloads},
};
use engine::ActionError;
use serde_json::{Value, json};
use workflows::platform::{Ownership, codes};

/// The kinds of these requests.
pub(in crate::simulated) const HEALTH: &str = "Health";
pub(in crate::simulated) const RESET: &str = "GpuReset";
pub(in crate::simulated) const REBOOT: &str = "Reboot";

fn node_of(request: &Request) -> String {
    format!("{}/{}", request.cluster, request.name)
}

fn boot_of(state: &State, request: &Request) -> String {
    format!("boot-{}", state.boots.get(&node_of(request)).copied().unwrap_or(0))
}

/// Returns the driver's counters: none, or the recovery action of a script.
pub(in crate::simulated) fn health(state: &State, request: &Request) -> Value {
    let fault = request.spec.get("fault").and_then(Value::as_str);
    let asked = fault.filter(|fault| *fault != "scripted").unwrap_or("nothing");
    let report = if fault.is_some() { "XID 79 was counted on GPU 0" } else { "no errors were counted" };
    json!({
        "fit": fault.is_none(), "recovery": asked, "boot": boot_of(state, request),
        "report": format!("simulated: {report}"),
    })
}

/// Resets the GPUs of a node, unless a workload uses them.
pub(in crate::simulated) fn reset(state: &State, request: &Request) -> Result<Applied, ActionError> {
    let all: Vec<u16> = (0..64).collect();
    let asked = Request { spec: json!({ "gpus": all }), ..request.clone() };
    let open = workloads::clients(state, &asked);
    if open.as_array().is_some_and(|open| !open.is_empty()) {
        return Err(ActionError::transient(
            codes::GPU_BUSY,
            format!("GPUs of {} are open: {open}", request.name),
        ));
    }
    Ok(Applied::Effect(Response::default()))
}

/// Ends the given boot of a node. Does nothing if it has already ended.
pub(in crate::simulated) fn reboot(state: &mut State, request: &Request) -> Applied {
    if request.spec.get("boot").and_then(Value::as_str) != Some(boot_of(state, request).as_str()) {
        return Applied::Nothing(Response::default());
    }
    *state.boots.entry(node_of(request)).or_default() += 1;
    Applied::Effect(Response::default())
}

/// Returns the request that makes a tenant the owner of a node outside of every step.
pub(in crate::simulated) fn owned(cluster: &str, node: &str, tenant: &str, owner_epoch: u64) -> Request {
    let of = Ownership { tenant: Some(tenant.to_owned()), owner_epoch, cordoned: false };
    Request {
        action: "TakeNode".into(),
        step: format!("beginning of {node}"),
        key: format!("beginning of {node}"),
        epoch: 0,
        deadline_ms: 0,
        system: System::Kubernetes,
        cluster: cluster.to_owned(),
        verb: Verb::Take,
        kind: "Node".into(),
        name: node.to_owned(),
        tenant: tenant.to_owned(),
        spec: json!(of),
        precondition_uid: None,
        dry_run: false,
    }
}
