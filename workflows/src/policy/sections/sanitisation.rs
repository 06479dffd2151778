//! Rules of media sanitisation before a node changes its tenant.

use crate::{
    policy::parsing::{
        document::Item,
        reader::{Fields, Reader},
    },
    tenancy::Tier,
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};

/// Rules of sanitisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SanitisationRules {
    /// The weakest sufficient method for each medium.
    pub minimum: BTreeMap<Medium, Method>,
    /// The weakest method by tier, where it differs.
    pub by_tier: BTreeMap<Tier, BTreeMap<Medium, Method>>,
    /// The number of one tenant's nodes that are sanitised at once. Default 8.
    pub concurrency: u32,
    /// Automatic attempts on one medium before an approval is requested. Default 2.
    pub attempts: u32,
    /// The time limit of one medium without an estimate from the device. Default 24 h.
    pub within: Duration,
}

/// Media that hold data.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Medium {
    /// Solid state drives on NVMe.
    Nvme,
    /// Solid state drives on SATA or SAS.
    Ssd,
    /// Magnetic drives.
    Hdd,
    /// Memory of GPUs.
    GpuMemory,
    /// Main memory.
    Memory,
    /// Firmware settings, and memory of network cards and management controllers.
    Firmware,
}

/// The methods of NIST SP 800-88, weakest first.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::VariantArray,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Method {
    /// Logical techniques on all user-addressable locations.
    Clear,
    /// Techniques that protect against laboratory attacks.
    Purge,
    /// The medium is unusable afterwards.
    Destroy,
}

const FIELDS: [&str; 5] = ["minimum", "by_tier", "concurrency", "attempts", "within"];

impl SanitisationRules {
    /// Returns the weakest sufficient method; `purge` for a medium that policy does not name.
    #[must_use]
    pub fn method(&self, medium: Medium, tier: Tier) -> Method {
        let by_tier = self.by_tier.get(&tier).and_then(|methods| methods.get(&medium));
        by_tier.or_else(|| self.minimum.get(&medium)).copied().unwrap_or(Method::Purge)
    }

    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let fields = top.layer("sanitisation", &FIELDS)?;
        let reader = fields.reader();
        let minimum = fields.required("minimum").and_then(|item| methods(reader, item));
        let by_tier = fields.required("by_tier").and_then(|item| tiers(reader, item));
        let concurrency = fields.required("concurrency").and_then(|item| reader.whole(item, 1..=10_000_u32));
        let attempts = fields.required("attempts").and_then(|item| reader.whole(item, 1..=10_u32));
        let within = fields.required("within").and_then(|item| reader.duration(item));
        Some(Self {
            minimum: minimum?,
            by_tier: by_tier?,
            concurrency: concurrency?,
            attempts: attempts?,
            within: within?,
        })
    }
}

fn methods(reader: &Reader, item: &Item) -> Option<BTreeMap<Medium, Method>> {
    let mut all = BTreeMap::new();
    for (medium, inner) in reader.keyed(item) {
        all.insert(medium, reader.one_of(inner)?);
    }
    Some(all)
}

fn tiers(reader: &Reader, item: &Item) -> Option<BTreeMap<Tier, BTreeMap<Medium, Method>>> {
    let mut all = BTreeMap::new();
    for (tier, inner) in reader.keyed(item) {
        all.insert(tier, methods(reader, inner)?);
    }
    Some(all)
}
