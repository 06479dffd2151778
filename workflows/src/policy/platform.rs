//! The platform policy: what is waived from people, who is asked, how long is waited. Immutable per version.

use super::{document, finding::Invalid, platform_reader, reader::Reader};
use crate::tenancy::{Cents, Compliance, GpuModel, Gpus, Isolation, RegionId, Residency, Tier};
use engine::{Entity, Seat};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::OnceLock,
    time::Duration,
};
use store::Timestamp;

/// Names one version of a policy, and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRef {
    /// Its name.
    pub name: String,
    /// Its version, from 1.
    pub version: u32,
    /// `sha256:` and the digest of its text.
    pub digest: String,
}

/// Who decides on an onboarding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approvals {
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
}

/// What a compliance tag demands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Demands {
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
    pub onboarding: Approvals,
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
    pub compliance: BTreeMap<Compliance, Demands>,
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
}

impl Entity for PublishedPolicy {
    const COLLECTION: &'static str = "policies";

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
}

impl Entity for PolicyInForce {
    const COLLECTION: &'static str = "policies-in-force";

    fn id(&self) -> String {
        self.reference.name.clone()
    }
}

impl PlatformPolicy {
    /// The name of the only policy of this kind.
    pub const NAME: &'static str = "platform";
    /// The text of the version that is built in.
    pub const BUILT_IN: &'static str = include_str!("default.yaml");

    /// The version that is built in; it holds until another is published.
    ///
    /// # Errors
    /// None in a build whose tests passed.
    pub fn built_in() -> Result<Self, Invalid> {
        static READ: OnceLock<Result<PlatformPolicy, Invalid>> = OnceLock::new();
        READ.get_or_init(|| Self::from_yaml(Self::BUILT_IN)).clone()
    }

    /// The policy in a YAML document.
    ///
    /// # Errors
    /// Everything that is wrong with it, by line and column.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let read = platform_reader::policy(&reader, &root, text);
        reader.done(read)
    }

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
