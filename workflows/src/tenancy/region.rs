//! Regions, and the allowed locations of data.

use super::{ClusterId, GpuModel, Gpus, Name, NameKind, RegionId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Marks names of jurisdictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfJurisdiction;
impl NameKind for OfJurisdiction {
    const WORD: &'static str = "jurisdiction";
    const LONGEST: usize = 20;
    const LOOSE: bool = false;
}
/// A jurisdiction: `eu`, or a country's code such as `de` or `us`.
pub type Jurisdiction = Name<OfJurisdiction>;

/// Countries that are also part of `eu`: the 27 member states, by ISO 3166 code.
const EU_MEMBERS: [&str; 27] = [
    "at", "be", "bg", "hr", "cy", "cz", "dk", "ee", "fi", "fr", "de", "gr", "hu", "ie", "it", "lv", "lt",
    "lu", "mt", "nl", "pl", "pt", "ro", "sk", "si", "es", "se",
];

/// The allowed locations of a tenant's workloads and data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// Anywhere.
    Any,
    /// In these jurisdictions only; `eu` includes its member states.
    Within(BTreeSet<Jurisdiction>),
}

impl Residency {
    /// Returns true if workloads and data may be in `jurisdiction` (I-22).
    #[must_use]
    pub fn allows(&self, jurisdiction: &Jurisdiction) -> bool {
        match self {
            Self::Any => true,
            Self::Within(allowed) => {
                allowed.contains(jurisdiction)
                    || (EU_MEMBERS.contains(&jurisdiction.as_str())
                        && allowed.iter().any(|j| j.as_str() == "eu"))
            }
        }
    }

    /// Returns the text for plans: `any`, or `eu,us`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Any => "any".into(),
            Self::Within(allowed) => allowed.iter().map(Name::as_str).collect::<Vec<_>>().join(","),
        }
    }
}

/// GPUs reserved for maintenance and incidents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// The number for each model without its own entry.
    pub each: Gpus,
    /// The number by model.
    pub by_model: BTreeMap<GpuModel, Gpus>,
}

impl Buffer {
    /// Returns the number of reserved GPUs of `model`.
    #[must_use]
    pub fn for_model(&self, model: &GpuModel) -> Gpus {
        self.by_model.get(model).copied().unwrap_or(self.each)
    }
}

/// A region: clusters under one jurisdiction that are planned together. Rewritten whenever a cluster is added or removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// The name.
    pub id: RegionId,
    /// The jurisdiction.
    pub jurisdiction: Jurisdiction,
    /// The reserved GPUs.
    pub buffer: Buffer,
    /// The clusters.
    pub clusters: BTreeSet<ClusterId>,
}

impl Entity for Region {
    const COLLECTION: &'static str = "regions";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.to_string()
    }
}

/// All regions, so that a decision can list them. Rewritten whenever a region is added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionIndex {
    /// Their names.
    pub regions: BTreeSet<RegionId>,
}

impl RegionIndex {
    /// The id of the only index.
    pub const ID: &'static str = "regions";
}

impl Entity for RegionIndex {
    const COLLECTION: &'static str = "atlas";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::ID.into()
    }
}
