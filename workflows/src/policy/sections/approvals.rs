//! The approvals before requests: seats and time limits.

use super::capacity::Rung;
use crate::{
    policy::{
        Ratio,
        parsing::{
            document::Item,
            reader::{Fields, Reader},
        },
        sections::{procedures::procedure, seats::seats},
    },
    tenancy::Gpus,
};
use engine::{Procedure, Seat};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// One approval. It never passes by time: without enough votes it expires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGate {
    /// The time limit.
    pub within: Duration,
    /// The seats that must approve: different users, never the requester. Never empty.
    pub seats: Vec<Seat>,
    /// Reminders and escalation, and the emergency override.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
}

impl ApprovalGate {
    /// Creates an approval that only expires.
    pub(crate) fn plain(within: Duration, seats: Vec<Seat>) -> Self {
        Self { within, seats, procedure: Procedure::default() }
    }
}

/// The approval of a larger quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaIncreaseApproval {
    /// The approval above the automatic limits.
    pub gate: ApprovalGate,
    /// Increases up to this number of GPUs need no approval.
    pub auto_gpus: Gpus,
    /// Increases up to this share of the workspace's quota need no approval.
    pub auto_share: Ratio,
    /// `capacity_seats` must also approve above this share of the free GPUs of region and model.
    pub capacity_share: Ratio,
    /// The seats that approve capacity.
    pub capacity_seats: Vec<Seat>,
}

/// The approval of each kind of request. Onboarding has its own rules, [`crate::policy::OnboardingApproval`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGates {
    /// A larger quota.
    pub quota_increase: QuotaIncreaseApproval,
    /// A quota below the usage.
    pub quota_decrease: ApprovalGate,
    /// A reclaim beyond its guard; urgent.
    pub reclaim: ApprovalGate,
    /// The end of a tenant.
    pub offboard: ApprovalGate,
    /// Destruction of exactly one inventory of assets.
    pub destroy: ApprovalGate,
    /// Another tier or isolation for a tenant.
    pub sla_change: ApprovalGate,
    /// A remedy of an incident that disturbs tenants; urgent.
    pub incident: ApprovalGate,
    /// Rungs of the capacity ladder with an approval; the others need none.
    pub capacity: BTreeMap<Rung, ApprovalGate>,
}

/// The fields of every approval.
pub(in crate::policy) const GATE: [&str; 6] =
    ["within", "seats", "escalate", "extend", "remind", "break_glass"];

impl ApprovalGates {
    pub(in crate::policy) fn read(fields: &Fields<'_>) -> Option<Self> {
        let gate = |name| fields.layer(name, &GATE).and_then(|fields| gate(&fields));
        let quota_increase = fields
            .layer("quota_increase", &[&GATE[..], &["auto", "capacity"]].concat())
            .and_then(|fields| quota_increase(&fields));
        let (quota_decrease, reclaim) = (gate("quota_decrease"), gate("reclaim"));
        let (offboard, destroy) = (gate("offboard"), gate("destroy"));
        let (sla_change, incident) = (gate("sla_change"), gate("incident"));
        let capacity = fields.required("capacity").and_then(|item| rungs(fields.reader(), item));
        Some(Self {
            quota_increase: quota_increase?,
            quota_decrease: quota_decrease?,
            reclaim: reclaim?,
            offboard: offboard?,
            destroy: destroy?,
            sla_change: sla_change?,
            incident: incident?,
            capacity: capacity?,
        })
    }
}

fn gate(fields: &Fields<'_>) -> Option<ApprovalGate> {
    let reader = fields.reader();
    let within = fields.required("within").and_then(|item| reader.duration(item));
    let seats = fields.required("seats").and_then(|item| seats(reader, item));
    let procedure = procedure(fields);
    Some(ApprovalGate { within: within?, seats: seats?, procedure: procedure? })
}

fn quota_increase(fields: &Fields<'_>) -> Option<QuotaIncreaseApproval> {
    let reader = fields.reader();
    let gate = gate(fields);
    let auto = fields.layer("auto", &["gpus", "share"]);
    let auto_gpus = auto.as_ref().and_then(|auto| auto.required("gpus")).and_then(|item| reader.gpus(item));
    let auto_share =
        auto.as_ref().and_then(|auto| auto.required("share")).and_then(|item| reader.share(item));
    let capacity = fields.layer("capacity", &["above_share", "seats"]);
    let above =
        capacity.as_ref().and_then(|all| all.required("above_share")).and_then(|item| reader.share(item));
    let asked = capacity.as_ref().and_then(|all| all.required("seats")).and_then(|item| seats(reader, item));
    Some(QuotaIncreaseApproval {
        gate: gate?,
        auto_gpus: auto_gpus?,
        auto_share: auto_share?,
        capacity_share: above?,
        capacity_seats: asked?,
    })
}

fn rungs(reader: &Reader, item: &Item) -> Option<BTreeMap<Rung, ApprovalGate>> {
    let mut all = BTreeMap::new();
    for (rung, inner) in reader.keyed::<Rung>(item) {
        let read = reader.fields(inner, &GATE).and_then(|fields| gate(&fields));
        all.insert(rung, read?);
    }
    Some(all)
}
