//! The platform policy: waived approvals, approvers and time limits. A version never changes.

use crate::{
    policy::{
        AdmissionRules, ApprovalGates, CapacityRules, GpuModels, Guards, LendingRules, OffboardingRules, Pin,
        Provenance, ReclaimRules, Retention, SanitisationRules, SchedulingRules, SweepSchedules,
    },
    tenancy::{Cents, Compliance, GpuModel, Gpus, Isolation, PolicyRef, RegionId, Residency, Tier},
};
use engine::{Entity, Procedure, Seat};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::Timestamp;

/// The approval of an onboarding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingApproval {
    /// The time limit of the approval.
    pub within: Duration,
    /// The seats that always approve.
    pub seats: Vec<Seat>,
    /// `finance_seats` must also approve above this list price.
    pub finance_above: Cents,
    /// The seats that approve prices.
    pub finance_seats: Vec<Seat>,
    /// The seats that also approve requests with compliance tags.
    pub security_seats: Vec<Seat>,
    /// Reminders and escalation of the approval, and the emergency override.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
}

/// The demands of a compliance tag.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComplianceDemands {
    /// The widest residency of the tenant.
    pub residency: Option<Residency>,
    /// The allowed isolation levels; `None` for any.
    pub isolation: Option<BTreeSet<Isolation>>,
}

/// A platform policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlatformPolicy {
    /// The name, version and digest.
    pub reference: PolicyRef,
    /// Tiers that need no approval.
    pub self_service_tiers: BTreeSet<Tier>,
    /// The most GPUs without an approval.
    pub self_service_gpus: Gpus,
    /// The approval of an onboarding.
    pub onboarding: OnboardingApproval,
    /// The time that an onboarding waits for capacity before an approval is requested.
    pub waitlist: Duration,
    /// The time limit of that approval.
    pub patience: Duration,
    /// The most unfit nodes that an onboarding replaces before it fails.
    pub max_replacements: u32,
    /// List price per GPU and hour.
    pub price: Cents,
    /// List price per GPU and hour of the models with their own price.
    pub prices: BTreeMap<GpuModel, Cents>,
    /// The borrowing limit of workspaces without one; `None` for no limit.
    pub borrowing_limit: Option<Gpus>,
    /// The lending limit of workspaces without one; `None` for no limit.
    pub lending_limit: Option<Gpus>,
    /// The allowed driver versions of nodes, as prefixes.
    pub drivers: Vec<String>,
    /// The registries that images may come from.
    pub registries: Vec<String>,
    /// True if quotas may exceed the tenant's GPUs.
    pub overcommit: bool,
    /// GPUs of each model that are reserved in a region, unless the region itself reserves fewer.
    pub buffer: Gpus,
    /// The reserve by region, where it differs.
    pub buffers: BTreeMap<RegionId, Gpus>,
    /// The demands of compliance tags.
    pub compliance: BTreeMap<Compliance, ComplianceDemands>,
    /// The approvals of all other requests.
    pub approvals: ApprovalGates,
    /// Lending between workspaces.
    pub lending: LendingRules,
    /// Pins of labelled workloads to clusters.
    pub pins: Vec<Pin>,
    /// Retention of data.
    pub retention: Vec<Retention>,
    /// Rules of reclaims.
    pub reclaim: ReclaimRules,
    /// Rules of admission.
    pub admission: AdmissionRules,
    /// Rules of exhausted capacity.
    pub capacity: CapacityRules,
    /// Rules of media sanitisation.
    pub sanitisation: SanitisationRules,
    /// Rules of offboarding.
    pub offboarding: OffboardingRules,
    /// Guards against unsafe actions.
    pub guards: Guards,
    /// The catalogue of GPU models.
    pub gpu_models: GpuModels,
    /// The priority of a tenant's workloads by tier (S-54). A higher value is more important.
    pub priorities: BTreeMap<Tier, u32>,
    /// Preemption rules of schedulers.
    pub scheduling: SchedulingRules,
    /// The schedules of sweeps.
    pub sweeps: SweepSchedules,
    /// The place of each value in its document; not part of the digest.
    #[serde(skip)]
    pub provenance: Provenance,
}

/// A published version. It is kept forever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPolicy {
    /// The name, version and digest.
    pub reference: PolicyRef,
    /// The publisher.
    pub author: String,
    /// The time of publication.
    pub at: Timestamp,
    /// The document, byte for byte.
    pub text: String,
    /// The edition of the built-in text with this document's defaults, so that they never change.
    #[serde(default = "before_gaps_were_filled")]
    pub over: u32,
}

/// Policies of the first release need no default that differs from version 2.
fn before_gaps_were_filled() -> u32 {
    2
}

impl Entity for PublishedPolicy {
    const COLLECTION: &'static str = "policies";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        policy_key(&self.reference.name, self.reference.version)
    }
}

/// Returns the document id of a version.
pub(super) fn policy_key(name: &str, version: u32) -> String {
    format!("{name}@{version}")
}

/// The version in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInForce {
    /// The name, version and digest.
    pub reference: PolicyRef,
    /// The number of changes so far; 0 in stores that did not count yet.
    #[serde(default)]
    pub number: u64,
}

/// A change of the version in force. Never rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// The number of the change, from 1.
    pub number: u64,
    /// The version before.
    pub from: PolicyRef,
    /// The version after.
    pub to: PolicyRef,
    /// The user who made the change.
    pub by: String,
    /// The time of the change.
    pub at: Timestamp,
}

impl Entity for PolicyChange {
    const COLLECTION: &'static str = "policy-changes";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        format!("{:012}", self.number)
    }
}

impl Entity for PolicyInForce {
    const COLLECTION: &'static str = "policies-in-force";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.reference.name.clone()
    }
}

impl PlatformPolicy {
    /// The name of the only platform policy.
    pub const NAME: &'static str = "platform";

    /// Returns the list price of `count` GPUs of `model` for a month of 730 hours.
    #[must_use]
    pub fn monthly(&self, model: &GpuModel, count: Gpus) -> Cents {
        let hourly = self.prices.get(model).copied().unwrap_or(self.price);
        Cents(hourly.0.saturating_mul(730).saturating_mul(u64::from(count.0)))
    }

    /// Returns the number of GPUs of each model that policy reserves in `region`.
    #[must_use]
    pub fn buffer_in(&self, region: &RegionId) -> Gpus {
        self.buffers.get(region).copied().unwrap_or(self.buffer)
    }
}

/// Returns `sha256:` and the digest of `text` in hexadecimal.
pub(crate) fn sha256(text: &[u8]) -> String {
    format!("sha256:{}", store::hex::encode(&Sha256::digest(text)))
}
