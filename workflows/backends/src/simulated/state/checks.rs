//! Checks without a change: isolation, judged by the guards that exist, and the health of nodes.

use crate::simulated::{
    Request, Response, System,
    state::{State, machines, recovery},
};
use engine::ActionError;
use serde_json::{Value, json};

pub(in crate::simulated) fn check(state: &State, request: &Request) -> Result<Response, ActionError> {
    let value = match request.system {
        System::Gpus if request.kind == "GpuClients" => super::workloads::clients(state, request),
        System::Gpus if request.kind == recovery::HEALTH => recovery::health(state, request),
        System::Gpus => {
            let fit = !scripted(request);
            let report = if fit { "all tests passed" } else { "memory test failed on GPU 0" };
            json!({ "fit": fit, "report": format!("simulated: {report}") })
        }
        System::Machines => return machines::sample(state, request),
        System::Keys if request.kind == "decrypt" => decrypt(state, request),
        System::Kubernetes
        | System::Keys
        | System::Slurm
        | System::Objects
        | System::Identity
        | System::Storage
        | System::Backups
        | System::Registry
        | System::Logs
        | System::Network
        | System::Hooks => {
            let (guard, stands) = guard(state, request);
            let held = stands && !scripted(request);
            let answer = if held { "refused" } else { "not refused" };
            json!({ "held": held, "transcript": format!("simulated: {} was {answer} by {guard}", request.kind) })
        }
    };
    Ok(Response { found: None, value })
}

/// Checks if a stored ciphertext can still be decrypted, by the key or a copy of it.
fn decrypt(state: &State, request: &Request) -> Value {
    let key = state.objects.get(&format!("keys/{}/Key/{}", request.cluster, request.name));
    let is_copy = |object: &&crate::simulated::state::Object| {
        object.found.spec.get("copy_of").and_then(Value::as_str) == Some(request.name.as_str())
    };
    let copies = state.objects.values().filter(is_copy).count();
    let held = key.is_none() && copies == 0 && !scripted(request);
    let answer = if held { "failed" } else { "succeeded" };
    json!({ "held": held, "transcript": format!("simulated: decrypting a kept ciphertext {answer}") })
}

/// Returns true if a script makes this check fail.
fn scripted(request: &Request) -> bool {
    request.spec.get("fault").is_some()
}

/// Returns the guard that prevents a probe, and whether it exists.
fn guard(state: &State, request: &Request) -> (String, bool) {
    let Request { cluster, name, tenant, .. } = request;
    let stands = |address: String| {
        let there = state.objects.get(&address).is_some_and(|object| object.found.tenant == *tenant);
        (address, there)
    };
    match request.kind.as_str() {
        "foreign_credentials" => stands(format!("kubernetes/{cluster}/RoleBinding/{name}/tenant")),
        "cross_tenant_traffic" => stands(format!("kubernetes/{cluster}/NetworkPolicy/{name}/default-deny")),
        "over_quota" => stands(format!("kubernetes/{cluster}/ResourceQuota/{name}/tenure")),
        "foreign_image" => stands(format!("kubernetes/{cluster}/ValidatingAdmissionPolicy/{name}")),
        "foreign_pod" => {
            let prefix = format!("kubernetes/{cluster}/Node/");
            let tainted = state.nodes.iter().any(|(address, node)| {
                address.starts_with(&prefix) && node.owner.tenant.as_deref() == Some(tenant.as_str())
            });
            ("the taint of the tenant's nodes".to_owned(), tainted)
        }
        "foreign_key" => {
            let address = format!("keys//Key/{name}");
            let safe = state.objects.get(&address).is_some_and(|object| {
                object.found.spec.get("exportable") == Some(&Value::Bool(false))
                    && object.found.tenant == *tenant
            });
            (address, safe)
        }
        unknown => (format!("nothing: there is no probe {unknown:?}"), false),
    }
}
