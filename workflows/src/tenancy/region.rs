//! Regions, and where data may be.

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
/// Whose law holds: `eu`, or a country's code such as `de` or `us`.
pub type Jurisdiction = Name<OfJurisdiction>;

/// Countries whose law is also the law of `eu`: the 27 member states, by ISO 3166 code.
const EU_MEMBERS: [&str; 27] = [
    "at", "be", "bg", "hr", "cy", "cz", "dk", "ee", "fi", "fr", "de", "gr", "hu", "ie", "it", "lv", "lt",
    "lu", "mt", "nl", "pl", "pt", "ro", "sk", "si", "es", "se",
];

/// Where a tenant's work and data may be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Residency {
    /// Anywhere.
    Any,
    /// In these jurisdictions only; `eu` includes its member states.
    Within(BTreeSet<Jurisdiction>),
}

impl Residency {
    /// Whether work and data may be under `jurisdiction` (I-22).
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

    /// For people and plans: `any`, or `eu,us`.
    #[must_use]
    pub fn describe(&self) -> String {
        match self {
            Self::Any => "any".into(),
            Self::Within(allowed) => allowed.iter().map(Name::as_str).collect::<Vec<_>>().join(","),
        }
    }
}

/// GPUs kept back for maintenance and incidents.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Buffer {
    /// Of every model that is not named.
    pub each: Gpus,
    /// Of models by name.
    pub by_model: BTreeMap<GpuModel, Gpus>,
}

impl Buffer {
    /// How many GPUs of `model` are kept back.
    #[must_use]
    pub fn for_model(&self, model: &GpuModel) -> Gpus {
        self.by_model.get(model).copied().unwrap_or(self.each)
    }
}

/// A region: clusters that are reasoned about together, under one law. Rewritten whenever one of them comes or goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Region {
    /// Its name.
    pub id: RegionId,
    /// Whose law holds.
    pub jurisdiction: Jurisdiction,
    /// What is kept back.
    pub buffer: Buffer,
    /// Its clusters.
    pub clusters: BTreeSet<ClusterId>,
}

impl Entity for Region {
    const COLLECTION: &'static str = "regions";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.to_string()
    }
}

/// All regions, so that a decision can ask which there are. Rewritten whenever one comes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionIndex {
    /// Their names.
    pub regions: BTreeSet<RegionId>,
}

impl RegionIndex {
    /// The id of the only one.
    pub const ID: &'static str = "regions";
}

impl Entity for RegionIndex {
    const COLLECTION: &'static str = "atlas";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::ID.into()
    }
}
