//! The platform policy: what is waived from people, who is asked, how long is waited. Immutable per version.

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
    fmt::Write as _,
    time::Duration,
};
use store::Timestamp;

/// Who decides on an onboarding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OnboardingApproval {
    /// How long people have.
    pub within: Duration,
    /// Who is always asked.
    pub seats: Vec<Seat>,
    /// Above this list price, `finance_seats` are asked too.
    pub finance_above: Cents,
    /// Who is asked about money.
    pub finance_seats: Vec<Seat>,
    /// Who is asked when compliance tags are set.
    pub security_seats: Vec<Seat>,
    /// What happens while they do not answer, and who may agree alone.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
}

/// What a compliance tag demands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComplianceDemands {
    /// The tenant's residency may not be wider.
    pub residency: Option<Residency>,
    /// One of these isolations; `None` for any.
    pub isolation: Option<BTreeSet<Isolation>>,
}

/// A platform policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlatformPolicy {
    /// Which one.
    pub reference: PolicyRef,
    /// Tiers that are served without people.
    pub self_service_tiers: BTreeSet<Tier>,
    /// Up to this many GPUs.
    pub self_service_gpus: Gpus,
    /// Who decides on an onboarding.
    pub onboarding: OnboardingApproval,
    /// How long an onboarding waits for capacity before people are asked.
    pub waitlist: Duration,
    /// How long those people have.
    pub patience: Duration,
    /// How many unfit nodes an onboarding replaces before it gives up.
    pub max_replacements: u32,
    /// List price per GPU and hour.
    pub price: Cents,
    /// List price by model, where it differs.
    pub prices: BTreeMap<GpuModel, Cents>,
    /// The borrowing limit of workspaces that name none; `None` for no limit.
    pub borrowing_limit: Option<Gpus>,
    /// The lending limit of workspaces that name none; `None` for no limit.
    pub lending_limit: Option<Gpus>,
    /// Driver versions that a node may have, by their beginning.
    pub drivers: Vec<String>,
    /// Registries from which images may come.
    pub registries: Vec<String>,
    /// Whether quotas may exceed what a tenant owns.
    pub overcommit: bool,
    /// GPUs of each model kept back in a region, where the region itself keeps back fewer.
    pub buffer: Gpus,
    /// The same by region, where it differs.
    pub buffers: BTreeMap<RegionId, Gpus>,
    /// What compliance tags demand.
    pub compliance: BTreeMap<Compliance, ComplianceDemands>,
    /// Who is asked before what, beside onboarding.
    pub approvals: ApprovalGates,
    /// Lending between workspaces.
    pub lending: LendingRules,
    /// Where marked work must stay.
    pub pins: Vec<Pin>,
    /// How long data are kept.
    pub retention: Vec<Retention>,
    /// How lent GPUs come back.
    pub reclaim: ReclaimRules,
    /// When work is let in.
    pub admission: AdmissionRules,
    /// What is done when capacity is exhausted.
    pub capacity: CapacityRules,
    /// How media are cleaned.
    pub sanitisation: SanitisationRules,
    /// How tenants leave.
    pub offboarding: OffboardingRules,
    /// What is stopped as unsafe.
    pub guards: Guards,
    /// What is known of GPU models.
    pub gpu_models: GpuModels,
    /// Rank of a tenant's work by tier (S-54): higher goes first.
    pub priorities: BTreeMap<Tier, u32>,
    /// How schedulers may preempt.
    pub scheduling: SchedulingRules,
    /// What runs by the clock.
    pub sweeps: SweepSchedules,
    /// Where each value stands in its document; no part of the digest.
    #[serde(skip)]
    pub provenance: Provenance,
}

/// A published version, kept for ever.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublishedPolicy {
    /// Which one.
    pub reference: PolicyRef,
    /// Who published it.
    pub author: String,
    /// When.
    pub at: Timestamp,
    /// The document, byte for byte.
    pub text: String,
    /// Which of the texts that were ever built in fills the document's gaps, so that they never change either.
    #[serde(default = "before_gaps_were_filled")]
    pub over: u32,
}

/// Policies of the first release had no gaps that version 2 does not fill as that release did.
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

/// The id of a version's document.
pub(super) fn policy_key(name: &str, version: u32) -> String {
    format!("{name}@{version}")
}

/// Which version is in force.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyInForce {
    /// That one.
    pub reference: PolicyRef,
    /// How often another one came into force; 0 in stores that did not count yet.
    #[serde(default)]
    pub number: u64,
}

/// Another version came into force. Never rewritten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyChange {
    /// Counts the changes, from 1.
    pub number: u64,
    /// What was in force before.
    pub from: PolicyRef,
    /// What is in force since.
    pub to: PolicyRef,
    /// Who said so.
    pub by: String,
    /// From when on it holds.
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
    /// The name of the only policy of this kind.
    pub const NAME: &'static str = "platform";

    /// What `count` GPUs of `model` cost in a month of 730 hours, by list.
    #[must_use]
    pub fn monthly(&self, model: &GpuModel, count: Gpus) -> Cents {
        let hourly = self.prices.get(model).copied().unwrap_or(self.price);
        Cents(hourly.0.saturating_mul(730).saturating_mul(u64::from(count.0)))
    }

    /// GPUs of one model that policy keeps back in `region`.
    #[must_use]
    pub fn buffer_in(&self, region: &RegionId) -> Gpus {
        self.buffers.get(region).copied().unwrap_or(self.buffer)
    }
}

/// `sha256:` and the digest of `text` in hexadecimal.
pub(crate) fn sha256(text: &[u8]) -> String {
    let mut shown = String::from("sha256:");
    for byte in Sha256::digest(text) {
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}
