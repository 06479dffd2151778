//! The platform policy: what is waived from people, who is asked, how long is waited. Immutable per version.

use crate::policy::{
    Admission, Capacity, Gates, GpuModels, Guards, Lending, Offboarding, Pin, Provenance, Reclaim, Retention,
    Sanitisation, Scheduling, Sweeps,
    parsing::{
        defaults::filled,
        document::{self, Item, Value},
        finding::Invalid,
        reader::Reader,
    },
    platform_policy_reader::{self, Under},
};
use crate::tenancy::{Cents, Compliance, GpuModel, Gpus, Isolation, RegionId, Residency, Tier};
use engine::{Entity, Procedure, Seat};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    sync::{Mutex, OnceLock, PoisonError},
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
    /// What happens while they do not answer, and who may agree alone.
    #[serde(default, skip_serializing_if = "Procedure::is_plain")]
    pub procedure: Procedure,
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
    /// Who is asked before what, beside onboarding.
    pub approvals: Gates,
    /// Lending between workspaces.
    pub lending: Lending,
    /// Where marked work must stay.
    pub pins: Vec<Pin>,
    /// How long data are kept.
    pub retention: Vec<Retention>,
    /// How lent GPUs come back.
    pub reclaim: Reclaim,
    /// When work is let in.
    pub admission: Admission,
    /// What is done when capacity is exhausted.
    pub capacity: Capacity,
    /// How media are cleaned.
    pub sanitisation: Sanitisation,
    /// How tenants leave.
    pub offboarding: Offboarding,
    /// What is stopped as unsafe.
    pub guards: Guards,
    /// What is known of GPU models.
    pub gpu_models: GpuModels,
    /// Rank of a tenant's work by tier (S-54): higher goes first.
    pub priorities: BTreeMap<Tier, u32>,
    /// How schedulers may preempt.
    pub scheduling: Scheduling,
    /// What runs by the clock.
    pub sweeps: Sweeps,
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
    /// The version of the built-in policy that fills the document's gaps, so that they never change either.
    #[serde(default = "before_gaps_were_filled")]
    pub over: u32,
}

/// Policies of the first release had no gaps that version 2 does not fill as that release did.
fn before_gaps_were_filled() -> u32 {
    2
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

    fn id(&self) -> String {
        format!("{:012}", self.number)
    }
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
    /// The text of the latest version that is built in. A change of it is a new version: add the old text to
    /// `history` first, since decisions refer to it for ever.
    pub const BUILT_IN: &'static str = include_str!("default.yaml");
    /// Its number.
    pub(super) const LATEST: u32 = 2;
    /// All texts that were ever built in, by version from 1.
    const BUILT_INS: [&'static str; 2] = [include_str!("history/platform-1.yaml"), Self::BUILT_IN];

    /// The latest version that is built in; it holds until another is published.
    ///
    /// # Errors
    /// None in a build whose tests passed.
    pub fn built_in() -> Result<Self, Invalid> {
        Ok(base()?.policy.clone())
    }

    /// The policy in a YAML document. What it leaves out is as in the latest version that is built in.
    ///
    /// # Errors
    /// Everything that is wrong with it, by line and column.
    pub fn from_yaml(text: &str) -> Result<Self, Invalid> {
        let base = base()?;
        Self::over(text, base)
    }

    /// The policy that was published, its gaps filled as they were then. Read once for each text: admissions ask often.
    ///
    /// # Errors
    /// As [`Self::from_yaml`].
    pub(super) fn published(published: &PublishedPolicy) -> Result<Self, Invalid> {
        // There is one version that fills gaps so far; `over` says which, so that a later one changes nothing here.
        static READ: Mutex<BTreeMap<String, PlatformPolicy>> = Mutex::new(BTreeMap::new());
        let digest = sha256(published.text.as_bytes());
        let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(policy) = read.get(&digest) {
            return Ok(policy.clone());
        }
        let policy = Self::from_yaml(&published.text)?;
        if read.len() >= MOST_READ {
            read.pop_first();
        }
        read.insert(digest, policy.clone());
        Ok(policy)
    }

    /// The built-in policy of this number, whether or not it is the latest.
    ///
    /// # Errors
    /// None in a build whose tests passed.
    pub(super) fn built_in_version(version: u32) -> Result<Option<Self>, Invalid> {
        let Some(text) = Self::built_in_text(version) else { return Ok(None) };
        if text == Self::BUILT_IN { Self::built_in().map(Some) } else { Self::from_yaml(text).map(Some) }
    }

    /// The text of a version that was ever built in.
    #[must_use]
    pub fn built_in_text(version: u32) -> Option<&'static str> {
        (version as usize).checked_sub(1).and_then(|index| Self::BUILT_INS.get(index)).copied()
    }

    /// The built-in text under the next number, each first text of a pair replaced by the second: a policy to publish in
    /// demonstrations and tests. It carries no examples, which say what the built-in values do. `None` when a first text does not occur.
    #[must_use]
    pub fn amended(changes: &[(&str, &str)]) -> Option<String> {
        let (latest, next) = (format!("version: {}", Self::LATEST), format!("version: {}", Self::LATEST + 1));
        let without = Self::BUILT_IN.split("\nexamples:\n").next().unwrap_or_default();
        let text = without.replacen(&latest, &next, 1);
        changes
            .iter()
            .try_fold(text, |text, (from, to)| text.contains(from).then(|| text.replacen(from, to, 1)))
    }

    /// The document of a platform policy with its gaps filled; any other document as it is.
    pub(super) fn filled(root: Item) -> Result<Item, Invalid> {
        let Value::Map(fields) = &root.value else { return Ok(root) };
        if fields.iter().any(|(name, _, _)| name == "policy") {
            return Ok(filled(&root, &base()?.root));
        }
        Ok(root)
    }

    fn over(text: &str, base: &Base) -> Result<Self, Invalid> {
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let under = Under { root: &base.root, provenance: &base.policy.provenance };
        let read = platform_policy_reader::policy(&reader, &root, text, Some(&under));
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

/// Policies that are kept in memory.
const MOST_READ: usize = 32;

/// The built-in policy, and its document for the gaps of others.
struct Base {
    policy: PlatformPolicy,
    root: Item,
}

fn base() -> Result<&'static Base, Invalid> {
    static READ: OnceLock<Result<Base, Invalid>> = OnceLock::new();
    let read = READ.get_or_init(|| {
        let text = PlatformPolicy::BUILT_IN;
        let root = document::from_yaml(text)?;
        let reader = Reader::default();
        let policy = platform_policy_reader::policy(&reader, &root, text, None);
        Ok(Base { policy: reader.done(policy)?, root })
    });
    read.as_ref().map_err(Clone::clone)
}

/// `sha256:` and the digest of `text` in hexadecimal.
pub(crate) fn sha256(text: &[u8]) -> String {
    let mut shown = String::from("sha256:");
    for byte in Sha256::digest(text) {
        let _ = write!(shown, "{byte:02x}");
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decisions of the first release name this digest.
    #[test]
    fn a_version_that_was_built_in_is_never_lost_nor_changed() {
        let first = PlatformPolicy::built_in_version(1).unwrap().unwrap().reference;
        assert_eq!(first.digest, "sha256:73a2558f36556dc325f6a36bf41edcc11189fdf4570bdb348aa4a6a90ad20025");
        let latest = PlatformPolicy::built_in_version(PlatformPolicy::LATEST).unwrap().unwrap();
        assert_eq!((latest.reference.version, PlatformPolicy::BUILT_INS.len()), (2, 2));
        assert_eq!(PlatformPolicy::built_in_version(3).unwrap(), None);
    }
}
