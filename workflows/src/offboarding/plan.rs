//! What people decide on: before the inventory, that the tenant leaves; after it, the exact list of what is destroyed.

use super::Offboarding;
use engine::Plan;
use serde_json::{Value, json};

pub(super) fn of(me: &Offboarding) -> Plan {
    let (Some(leaver), Some(terms)) = (&me.leaver, &me.terms) else {
        let decides =
            json!({ "kind": "offboarding", "tenant": me.tenant, "basis": me.basis, "reason": me.reason });
        return Plan { title: format!("offboard {}", me.tenant), decides, placement: Value::Null };
    };
    let nodes: Vec<Value> = me
        .sanitisations()
        .iter()
        .map(crate::offboarding::node_sanitisation::NodeSanitisation::decides)
        .collect();
    let title = match &me.inventory {
        None => format!("offboard {}: {} nodes", me.tenant, nodes.len()),
        Some(digest) => format!("destroy {} assets of {}: {}", me.assets, me.tenant, digest.short()),
    };
    let destroys = me
        .inventory
        .as_ref()
        .map(|digest| json!({ "inventory": digest, "assets": me.assets, "things": things(me) }));
    let decides = json!({
        "kind": "offboarding",
        "tenant": me.tenant,
        "basis": me.basis,
        "reason": me.reason,
        "simulated": leaver.simulated,
        "cluster": leaver.cluster,
        "workspaces": leaver.workspaces,
        "nodes": nodes,
        "policy": terms.policy,
        "destroys": destroys,
    });
    Plan { title, decides, placement: Value::Null }
}

/// Each thing with what will be done to it.
fn things(me: &Offboarding) -> Vec<Value> {
    let fate = |target: &super::RemovalTarget| match target.keep_until {
        Some(until) => json!({ "thing": target.thing, "uid": target.uid, "kept_until": until }),
        None => json!({ "thing": target.thing, "uid": target.uid }),
    };
    me.targets.iter().map(fate).collect()
}
