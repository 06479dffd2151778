//! Who is asked before something happens, and how long they have.

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

/// One question to people. Time never answers it: what is not agreed to within the span lapses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGate {
    /// How long they have.
    pub within: Duration,
    /// Who must agree: different people, never the requester. Never empty.
    pub seats: Vec<Seat>,
    /// What happens while they do not, and who may agree alone.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
}

impl ApprovalGate {
    /// A question that just lapses.
    pub(crate) fn plain(within: Duration, seats: Vec<Seat>) -> Self {
        Self { within, seats, procedure: Procedure::default() }
    }
}

/// Who decides on a larger quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaIncreaseApproval {
    /// Who is asked, beyond the automatic limits.
    pub gate: ApprovalGate,
    /// Increases of up to so many GPUs need nobody.
    pub auto_gpus: Gpus,
    /// Neither do increases of up to this share of what the workspace has.
    pub auto_share: Ratio,
    /// Above this share of the free GPUs of region and model, `capacity_seats` are asked too.
    pub capacity_share: Ratio,
    /// Who is asked about capacity.
    pub capacity_seats: Vec<Seat>,
}

/// Who is asked before what; onboarding has rules of its own, [`crate::policy::OnboardingApproval`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalGates {
    /// A larger quota.
    pub quota_increase: QuotaIncreaseApproval,
    /// A smaller quota than what is in use.
    pub quota_decrease: ApprovalGate,
    /// A reclaim that is wider than its guard; urgent.
    pub reclaim: ApprovalGate,
    /// The end of a tenant.
    pub offboard: ApprovalGate,
    /// Destruction of exactly one inventory of assets.
    pub destroy: ApprovalGate,
    /// Another tier or isolation for a tenant.
    pub sla_change: ApprovalGate,
    /// A remedy of an incident that disturbs tenants; urgent.
    pub incident: ApprovalGate,
    /// Rungs of the capacity ladder that ask people; the others ask nobody.
    pub capacity: BTreeMap<Rung, ApprovalGate>,
}

/// What every question may say.
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
