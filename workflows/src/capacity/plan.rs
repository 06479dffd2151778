//! The plan for approvers: one rung, with the measured capacity.

use super::CapacityExhaustion;
use engine::Plan;
use serde_json::json;

pub(super) fn of(me: &CapacityExhaustion) -> Plan {
    let rung = me.rung();
    let title = match rung {
        Some(rung) => format!("shortage of {} in {}: {}", me.model, me.region, <&str>::from(rung)),
        None => format!("shortage of {} in {}", me.model, me.region),
    };
    Plan {
        title,
        decides: json!({
            "kind": "capacity_exhaustion",
            "region": me.region,
            "model": me.model,
            "rung": rung,
            "recalls": if me.is(crate::policy::Rung::RecallOverdue) { json!(me.overdue) } else { json!([]) },
            "ladder": me.terms.as_ref().map(|terms| terms.ladder.iter().map(|climb| climb.rung).collect::<Vec<_>>()),
            "policy": me.terms.as_ref().map(|terms| &terms.policy),
        }),
        placement: json!({ "measured": me.measured.last(), "tried": me.tried, "trigger": me.trigger }),
    }
}
