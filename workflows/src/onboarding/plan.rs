//! The plan for approvers: all agreed terms. The proposed nodes are outside the digest.

use super::Onboarding;
use engine::Plan;
use serde::Serialize;
use serde_json::{Value, json};

pub(super) fn of(me: &Onboarding) -> Plan {
    let (request, bought) = (&me.request, &me.request.entitlement);
    let title = format!("onboard {}: {} {}", request.name, bought.gpus, bought.gpu_model);
    let Some(terms) = &me.terms else {
        return Plan { title, decides: json!({ "request": request_of(me) }), placement: Value::Null };
    };
    let regions: Vec<_> = terms.constraints.regions.iter().flatten().map(ToString::to_string).collect();
    let title = format!("{title} in {}", regions.join(" or "));
    let mut decides = json!({
        "kind": "onboarding",
        "tenant": request.name,
        "tier": request.tenant.tier,
        "isolation": request.tenant.isolation,
        "data_residency": request.tenant.data_residency.describe(),
        "allow_preemption": request.tenant.allow_preemption,
        "allow_gpu_sharing": request.tenant.allow_gpu_sharing,
        "compliance": request.compliance,
        "gpu_model": bought.gpu_model,
        "gpus": bought.gpus,
        "entitlement": { "from": bought.from, "to": bought.to },
        "regions": regions,
        "cluster_kind": terms.constraints.kind,
        "simulated": terms.constraints.simulated,
        "gpu_layout": me.profile(),
        "workspaces": terms.workspaces,
        "objects": objects(me),
        "price": { "cents_per_month": terms.monthly, "class": terms.price_class },
        "policy": terms.policy,
        "approvals": if terms.waived { Vec::new() } else { terms.seats.clone() },
    });
    if let (Some(piece), Value::Object(decides)) = (terms.gpu_piece, &mut decides) {
        decides.insert("gpu_piece".into(), json!(piece));
    }
    let placement = json!({ "proposed": me.proposal, "short": me.short, "claimed": me.claim });
    Plan { title, decides, placement }
}

/// Returns the request without line numbers, which belong to its document, not to the decision.
fn request_of(me: &Onboarding) -> crate::policy::OnboardingRequest {
    crate::policy::OnboardingRequest { lines: std::collections::BTreeMap::new(), ..me.request.clone() }
}

/// Returns the objects to create, from the actions that create them, without their place, which is not decided here.
fn objects(me: &Onboarding) -> Vec<Value> {
    let mut all = vec![json!({ "key": me.request.name }), json!({ "identity": me.groups() })];
    add(&mut all, "account", me.accounts());
    add(&mut all, "namespace", me.namespaces());
    add(&mut all, "cohort", me.cohorts());
    add(&mut all, "flavor", me.flavors());
    add(&mut all, "queue", me.queues());
    add(&mut all, "resource_quota", me.resource_quotas());
    add(&mut all, "isolation", me.isolations());
    add(&mut all, "bucket", me.buckets());
    if me.request.tenant.isolation == crate::tenancy::Isolation::DedicatedCluster {
        all.push(json!({ "cluster_key": me.request.name }));
    }
    all
}

fn add<A: Serialize>(all: &mut Vec<Value>, kind: &str, actions: Vec<A>) {
    for action in actions {
        let Ok(Value::Object(mut fields)) = serde_json::to_value(action) else { continue };
        for place in ["cluster", "region", "tenant"] {
            fields.remove(place);
        }
        all.push(json!({ kind: fields }));
    }
}
