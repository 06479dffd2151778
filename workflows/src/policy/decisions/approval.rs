//! Decides on approvals: if one is required, by which seats, within which time.

use super::{
    ReasonCollector, Ruling,
    guard::{self, ReclaimBreadth},
};
use crate::{
    policy::{ApprovalGate, PlatformPolicy, RuleName, Rung, duration},
    tenancy::{Cents, Gpus, Tier},
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The subjects of approvals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ApprovalFor {
    /// A larger quota.
    QuotaIncrease {
        /// The workspace's quota.
        from: Gpus,
        /// The requested quota.
        to: Gpus,
        /// Free GPUs of the region and model.
        free: Gpus,
    },
    /// A smaller quota.
    QuotaDecrease {
        /// The requested quota.
        to: Gpus,
        /// The usage.
        used: Gpus,
    },
    /// A reclaim.
    Reclaim(ReclaimBreadth),
    /// The end of a tenant.
    Offboard {},
    /// Destruction of an inventory.
    Destroy {
        /// The number of its assets.
        assets: u32,
    },
    /// Another tier or isolation.
    SlaChange {
        /// True if it promises less than before.
        lower: bool,
    },
    /// A remedy of an incident.
    Incident {
        /// True if it disturbs tenants' workloads.
        disturbs: bool,
    },
    /// A rung of the capacity ladder.
    Rung {
        /// The rung.
        rung: Rung,
        /// The tier of the tenant.
        tier: Tier,
        /// The list price of a month.
        #[serde(default)]
        monthly: Cents,
    },
}

/// The required approval.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approval {
    /// No approval.
    Nobody,
    /// Approval by these seats.
    People {
        /// The seats that must approve.
        seats: Vec<Seat>,
        /// The time limit.
        #[serde(with = "duration::text")]
        within: Duration,
        /// Reminders and escalation, and the emergency override.
        #[serde(default, skip_serializing_if = "Procedure::is_plain")]
        procedure: Procedure,
    },
    /// Not allowed, even with an approval.
    Refused,
}

impl Approval {
    /// Returns the approval gate; `None` if no approval is required or the request is not allowed.
    #[must_use]
    pub fn gate(self) -> Option<ApprovalGate> {
        match self {
            Self::People { seats, within, procedure } => Some(ApprovalGate { within, seats, procedure }),
            Self::Nobody | Self::Refused => None,
        }
    }
}

/// Decides if an approval is required.
#[must_use]
pub fn approval(ask: &ApprovalFor, policy: &PlatformPolicy) -> Ruling<Approval> {
    let mut scales = ReasonCollector::new(policy);
    let gates = &policy.approvals;
    let answer = match ask {
        ApprovalFor::QuotaIncrease { from, to, free } => increase(*from, *to, *free, &mut scales),
        ApprovalFor::QuotaDecrease { to, used } => decrease(*to, *used, &gates.quota_decrease, &mut scales),
        ApprovalFor::Reclaim(breadth) => reclaim(breadth, &gates.reclaim, &mut scales),
        ApprovalFor::Offboard {} => asked(
            &mut scales,
            (const { RuleName::known("approval.offboard") }, "approvals.offboard"),
            &gates.offboard,
            true,
            "a tenant ends".into(),
        ),
        ApprovalFor::Destroy { assets } => asked(
            &mut scales,
            (const { RuleName::known("approval.destroy") }, "approvals.destroy"),
            &gates.destroy,
            true,
            format!("{assets} assets are destroyed"),
        ),
        ApprovalFor::SlaChange { lower } => {
            let detail = if *lower { "the new terms promise less" } else { "the new terms promise more" };
            asked(
                &mut scales,
                (const { RuleName::known("approval.sla_change") }, "approvals.sla_change"),
                &gates.sla_change,
                true,
                detail.into(),
            )
        }
        ApprovalFor::Incident { disturbs } => {
            let detail = if *disturbs {
                "workloads of tenants are disturbed"
            } else {
                "no workload of a tenant is disturbed"
            };
            asked(
                &mut scales,
                (const { RuleName::known("approval.incident") }, "approvals.incident"),
                &gates.incident,
                *disturbs,
                detail.into(),
            )
        }
        ApprovalFor::Rung { rung, tier, monthly } => climb(*rung, *tier, *monthly, &mut scales),
    };
    scales.finish(answer)
}

fn decrease(to: Gpus, used: Gpus, gate: &ApprovalGate, scales: &mut ReasonCollector<'_>) -> Approval {
    let rule = const { RuleName::known("approval.quota_decrease") };
    let detail = format!("{used} in use, {to} requested");
    asked(scales, (rule, "approvals.quota_decrease"), gate, used > to, detail)
}

fn reclaim(breadth: &ReclaimBreadth, gate: &ApprovalGate, scales: &mut ReasonCollector<'_>) -> Approval {
    guard::judge_breadth(breadth, scales);
    let wide = scales.reasons.iter().any(super::Reason::counts);
    let detail = if wide { "the plan exceeds the guard" } else { "the plan is within the guard" };
    let rule = const { RuleName::known("approval.reclaim") };
    asked(scales, (rule, "approvals.reclaim"), gate, wide, detail.into())
}

fn asked(
    scales: &mut ReasonCollector<'_>,
    (rule, key): (RuleName, &str),
    gate: &ApprovalGate,
    asks: bool,
    detail: String,
) -> Approval {
    scales.ask(rule, key, asks, detail);
    if asks { people(gate) } else { Approval::Nobody }
}

fn people(gate: &ApprovalGate) -> Approval {
    Approval::People { seats: gate.seats.clone(), within: gate.within, procedure: gate.procedure.clone() }
}

fn increase(from: Gpus, to: Gpus, free: Gpus, scales: &mut ReasonCollector<'_>) -> Approval {
    let rules = &scales.policy.approvals.quota_increase;
    let (more, gate) = (to.saturating_sub(from), rules.gate.clone());
    let small = more <= rules.auto_gpus || !rules.auto_share.is_exceeded(more, from);
    let scarce = rules.capacity_share.is_exceeded(more, free);
    let (auto_gpus, auto_share, share) = (rules.auto_gpus, rules.auto_share, rules.capacity_share);
    let capacity_seats = rules.capacity_seats.clone();
    let detail =
        format!("{more} more than {from}; up to {auto_gpus}, or {auto_share} of its quota, need no approval");
    scales.ask(
        const { RuleName::known("approval.quota_increase") },
        "approvals.quota_increase.auto",
        !small,
        detail,
    );
    let detail = format!("{more} of {free} free; above {share} the capacity manager must approve");
    scales.ask(
        const { RuleName::known("approval.capacity") },
        "approvals.quota_increase.capacity.above_share",
        scarce,
        detail,
    );
    if more == Gpus::ZERO || (small && !scarce) {
        return Approval::Nobody;
    }
    let mut gate = gate;
    gate.seats.extend(capacity_seats.into_iter().filter(|_| scarce));
    people(&gate)
}

fn climb(rung: Rung, tier: Tier, monthly: Cents, scales: &mut ReasonCollector<'_>) -> Approval {
    let (name, capacity) = (<&str>::from(rung), &scales.policy.capacity);
    let key = format!("capacity.ladder.{}", <&str>::from(tier));
    let on_ladder = capacity.rungs(tier).contains(&rung);
    let cap = capacity.burst_cap;
    scales.check(
        const { RuleName::known("capacity.rung") },
        &key,
        on_ladder,
        format!("{name} for tier {}", <&str>::from(tier)),
    );
    if rung == Rung::Burst {
        let detail = format!("{monthly} a month; the cap is {cap}");
        scales.check(
            const { RuleName::known("capacity.burst_cap") },
            "capacity.burst_cap_cents_per_month",
            monthly <= cap,
            detail,
        );
    }
    if scales.failed() {
        return Approval::Refused;
    }
    let gate = scales.policy.approvals.capacity.get(&rung).cloned();
    let key = format!("approvals.capacity.{name}");
    scales.ask(
        const { RuleName::known("approval.capacity_rung") },
        &key,
        gate.is_some(),
        format!("the measure {name}"),
    );
    gate.as_ref().map_or(Approval::Nobody, people)
}
