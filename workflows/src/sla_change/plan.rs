//! The plan for approvers: the service level before and after, and the changes for each workspace.

use super::{SlaChange, SlaRequest};
use crate::quota_change::format_time;
use engine::Plan;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn of(me: &SlaChange) -> Plan {
    let request = &me.request;
    let title = format!("change the service level of {}", request.tenant);
    // Line numbers belong to the document, not to the decision.
    let asked = SlaRequest { lines: BTreeMap::new(), ..request.clone() };
    let Some(terms) = &me.terms else {
        return Plan { title, decides: json!({ "request": asked }), placement: Value::Null };
    };
    let (old, new) = (<&str>::from(terms.before.tier), <&str>::from(terms.after.tier));
    let title = if old == new { title } else { format!("{title} from {old} to {new}") };
    let mut decides = json!({
        "kind": "sla_change",
        "tenant": request.tenant,
        "before": terms.before,
        "after": terms.after,
        "priority": { "before": terms.priority.0, "after": terms.priority.1 },
        "not_before": request.not_before.map(format_time),
        "reason": request.reason,
        "cluster": terms.cluster,
        "cluster_kind": terms.kind,
        "simulated": terms.simulated,
        "workspaces": terms.workspaces,
        "nodes_to_be_cut_up_otherwise": terms.nodes,
        "gpu_layout": terms.layout_name(),
        "policy": terms.policy,
        "approvals": terms.seats,
    });
    // A decision without a class keeps the approved plan.
    if let (Some(class), Value::Object(decides)) = (&terms.priority_class, &mut decides) {
        decides.insert("priority_class".into(), json!(class));
    }
    Plan { title, decides, placement: json!({ "waiting_since": me.waiting_since }) }
}
