//! The plan for approvers: the quota before and after, in every layer.

use super::QuotaDecrease;
use crate::quota_change::QuotaRequest;
use engine::Plan;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn of(me: &QuotaDecrease) -> Plan {
    let request = &me.request;
    let title = format!("lower {} of {}/{}", request.resource, request.tenant, request.workspace);
    // Line numbers belong to the document, not to the decision.
    let asked = QuotaRequest { lines: BTreeMap::new(), ..request.clone() };
    let Some(terms) = &me.terms else {
        return Plan { title, decides: json!({ "request": asked }), placement: Value::Null };
    };
    let title = format!("{title} from {} to {}", terms.before.nominal, terms.after.nominal);
    let decides = json!({
        "kind": "quota_decrease",
        "tenant": request.tenant,
        "workspace": request.workspace,
        "resource": request.resource,
        "before": terms.before,
        "after": terms.after,
        "ended": request.ended,
        "reason": request.reason,
        "cluster": terms.cluster,
        "cluster_kind": terms.kind,
        "simulated": terms.simulated,
        "limits": { "names": me.steps().names(), "after": me.steps().target_limits() },
        "policy": terms.policy,
        "approvals": if terms.waived.is_some() { Vec::new() } else { terms.seats.clone() },
    });
    let placement = json!({ "over_limit_since": me.over_limit_since, "excess": me.excess });
    Plan { title, decides, placement }
}
