//! The plan for approvers: the quota before and after, in every layer. The proposed nodes are outside the digest.

use super::QuotaIncrease;
use crate::quota_change::{QuotaRequest, format_time};
use engine::Plan;
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) fn of(me: &QuotaIncrease) -> Plan {
    let request = &me.request;
    let title = format!("raise {} of {}/{}", request.resource, request.tenant, request.workspace);
    // Line numbers belong to the document, not to the decision.
    let asked = QuotaRequest { lines: BTreeMap::new(), ..request.clone() };
    let Some(terms) = &me.terms else {
        return Plan { title, decides: json!({ "request": asked }), placement: Value::Null };
    };
    let until = terms.ends.map(|at| format!(" until {}", format_time(at))).unwrap_or_default();
    let title = format!("{title} from {} to {}{until}", terms.before.nominal, terms.after.nominal);
    let decides = json!({
        "kind": "quota_increase",
        "tenant": request.tenant,
        "workspace": request.workspace,
        "resource": request.resource,
        "before": terms.before,
        "after": terms.after,
        "ends": terms.ends.map(format_time),
        "exception": request.exception,
        "reason": request.reason,
        "cluster": terms.cluster,
        "cluster_kind": terms.kind,
        "simulated": terms.simulated,
        "gpus_to_claim_at_most": terms.after.nominal.saturating_sub(terms.before.nominal),
        "limits": { "names": me.steps().names(), "after": me.steps().target_limits() },
        "policy": terms.policy,
        "approvals": if terms.waived.is_some() { Vec::new() } else { terms.seats.clone() },
    });
    let placement = json!({ "lacking": terms.lacking, "proposed": me.proposal, "claimed": me.claim });
    Plan { title, decides, placement }
}
