//! The catalogue of GPU models (S-50, S-107): memory, error correction and slice profiles.

use crate::{
    policy::parsing::{
        document::Item,
        reader::{Fields, Reader},
    },
    tenancy::{Gpu, GpuModel, GpuOffer, GpuSlicing, Layout, Profile, is_gpu_product, nearest_gpu_model},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuModels {
    /// The models by name, in the spelling of the inventory.
    pub models: BTreeMap<GpuModel, ModelFacts>,
    /// Aliases, each with its model.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub aliases: BTreeMap<GpuModel, GpuModel>,
}

/// The facts of one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelFacts {
    /// Memory of one GPU in MiB.
    pub memory_mib: u64,
    /// True if its memory has error correction. Tenants with customers of their own may not use models without it.
    pub ecc: bool,
    /// The hardware slice profiles; empty if it has none.
    pub mig: Vec<MigProfile>,
}

/// The memory and compute of each GPU of a tenant, or of each slice if its GPUs are partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuPiece {
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The compute slices of a slice, of 7 (4 on A30); `None` for a whole GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_slices: Option<u32>,
}

/// A slice profile.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MigProfile {
    /// NVIDIA's name, such as `1g.10gb`.
    pub name: String,
    /// The compute slices it takes, of 7 (4 on A30).
    pub slices: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The most slices on one GPU.
    pub per_gpu: u32,
}

impl GpuModels {
    /// Returns the facts of `model`; `None` for a model that policy does not name.
    #[must_use]
    pub fn get(&self, model: &GpuModel) -> Option<&ModelFacts> {
        self.models.get(model)
    }

    /// Returns the memory and compute of each piece of `offer`; `None` for a model or slice that policy does not name.
    #[must_use]
    pub fn piece(&self, offer: &GpuOffer) -> Option<GpuPiece> {
        let known = self.get(&offer.kind.model)?;
        match &offer.kind.profile {
            None => Some(GpuPiece { memory_mib: known.memory_mib, compute_slices: None }),
            Some(profile) => known
                .profile(profile.as_str())
                .map(|slice| GpuPiece { memory_mib: slice.memory_mib, compute_slices: Some(slice.slices) }),
        }
    }

    /// Returns true if GPUs of `model` support slices of `profile`.
    #[must_use]
    pub fn has_profile(&self, model: &GpuModel, profile: &str) -> bool {
        let listed = self.get(model).is_some_and(|model| model.profile(profile).is_some());
        let smallest = || self.slicing(model, None).ok().flatten();
        listed || smallest().is_some_and(|slicing| slicing.profile.as_str() == profile)
    }

    /// Returns how to request `part` of a GPU of `model`; `None` for an unknown model or one without slices.
    #[must_use]
    pub fn advice(&self, model: &GpuModel, part: f64) -> Option<String> {
        let thousandths = (part.fract() * 1_000.0).ceil();
        // Clamped to 0 to 1,000.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let profile = self.get(model)?.at_least(thousandths.clamp(0.0, 1_000.0) as u32)?;
        Some(format!("request slices of profile {} with isolation `shared_slices`", profile.name))
    }

    /// Returns the model of a name: that of an alias, or the name itself. Ignores an alias of an unknown model, which earlier policies could have.
    #[must_use]
    pub fn named(&self, name: &GpuModel) -> GpuModel {
        let is = |alias: &GpuModel| alias.as_str().eq_ignore_ascii_case(name.as_str());
        let found = self.aliases.iter().find(|(alias, _)| is(alias)).map(|(_, model)| model);
        let found = found.filter(|model| self.no_model(model).is_none());
        found.unwrap_or(name).clone()
    }

    /// Returns a message if no model has this name, with the nearest known name and all others; `None` for a model that exists, listed or not.
    #[must_use]
    pub fn no_model(&self, name: &GpuModel) -> Option<String> {
        let unknown = self.unknown(name).filter(|_| !is_gpu_product(name))?;
        let all: Vec<_> = self.models.keys().map(GpuModel::as_str).collect();
        Some(format!("{unknown} (known models: {})", all.join(", ")))
    }

    /// Returns a message if `model` is unknown, with the most similar known model; `None` for a known model.
    #[must_use]
    pub fn unknown(&self, model: &GpuModel) -> Option<String> {
        if self.models.contains_key(model) {
            return None;
        }
        let near = nearest_gpu_model(model, self.models.keys()).filter(|_| !is_gpu_product(model));
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        Some(format!("unknown model {model}{near}"))
    }

    /// Returns the slices of GPUs of `model` for a tenant that shares them: `wanted`, or the smallest slices of the model. `None` for a model without hardware
    /// slices, whose GPUs are shared by time.
    ///
    /// # Errors
    /// A profile that the model does not have; the message lists the valid ones.
    pub fn slicing(&self, model: &GpuModel, wanted: Option<&Profile>) -> Result<Option<GpuSlicing>, String> {
        let listed = self.get(model).map(|facts| facts.mig.as_slice()).unwrap_or_default();
        if let Some(wanted) = wanted {
            let found = listed.iter().find(|profile| profile.name == wanted.as_str());
            let all: Vec<_> = listed.iter().map(|profile| profile.name.as_str()).collect();
            let found = found.ok_or_else(|| match all.as_slice() {
                [] => format!("{model} cannot be cut into slices of {wanted}"),
                all => format!("{model} has no slices of {wanted}; it has {}", all.join(", ")),
            })?;
            return Ok(found.slicing());
        }
        let finest = Layout::Mig.profile(model).trim_start_matches("all-");
        let listed = listed
            .iter()
            .find(|profile| profile.name == finest)
            .or_else(|| listed.iter().min_by_key(|profile| (profile.slices, profile.memory_mib)));
        Ok(match listed {
            Some(profile) => profile.slicing(),
            None if Gpu::mig_capable(model) => {
                finest.parse().ok().map(|profile| GpuSlicing { profile, per_gpu: MOST_SLICES })
            }
            None => None,
        })
    }

    pub(in crate::policy) fn read(top: &Fields<'_>) -> Option<Self> {
        let item = top.required("gpu_models")?;
        let reader = top.reader();
        let models = reader.by_name(item, |item| facts(reader, item));
        let aliases = top.optional("aliases").map(|item| reader.by_name(item, |item| reader.name(item)));
        Some(Self { models, aliases: aliases.unwrap_or_default() })
    }
}

/// The most slices of the smallest profile on one GPU (NVIDIA's MIG user guide; A30 has 4, and is in the catalogue).
const MOST_SLICES: u16 = 7;

impl MigProfile {
    fn slicing(&self) -> Option<GpuSlicing> {
        let profile = self.name.parse().ok()?;
        Some(GpuSlicing { profile, per_gpu: u16::try_from(self.per_gpu).ok()? })
    }
}

impl ModelFacts {
    /// Returns the profile `name`, if GPUs of the model have it.
    #[must_use]
    pub fn profile(&self, name: &str) -> Option<&MigProfile> {
        self.mig.iter().find(|profile| profile.name == name)
    }

    /// Returns the smallest profile with at least `thousandths` of a GPU by compute slices.
    #[must_use]
    pub fn at_least(&self, thousandths: u32) -> Option<&MigProfile> {
        let whole = self.mig.iter().map(|profile| profile.slices).max()?;
        let enough = |profile: &&MigProfile| {
            u64::from(profile.slices).saturating_mul(1_000)
                >= u64::from(thousandths).saturating_mul(u64::from(whole))
        };
        self.mig.iter().filter(enough).min_by_key(|profile| (profile.slices, profile.memory_mib))
    }
}

fn facts(reader: &Reader, item: &Item) -> Option<ModelFacts> {
    let fields = reader.fields(item, &["memory_mib", "ecc", "mig"])?;
    let memory_mib = fields.required("memory_mib").and_then(|item| reader.whole(item, 1..=1_u64 << 30));
    let ecc = fields.required("ecc").and_then(|item| reader.bool(item));
    let mig = fields.optional("mig").map_or_else(|| Some(Vec::new()), |item| profiles(reader, item));
    Some(ModelFacts { memory_mib: memory_mib?, ecc: ecc?, mig: mig? })
}

fn profiles(reader: &Reader, item: &Item) -> Option<Vec<MigProfile>> {
    let read: Vec<_> = reader.list(item).iter().map(|item| profile(reader, item)).collect();
    read.into_iter().collect()
}

fn profile(reader: &Reader, item: &Item) -> Option<MigProfile> {
    let fields = reader.fields(item, &["name", "slices", "memory_mib", "per_gpu"])?;
    let name = fields.required("name").and_then(|item| reader.text(item)).map(str::to_owned);
    let slices = fields.required("slices").and_then(|item| reader.whole(item, 1..=7_u32));
    let memory_mib = fields.required("memory_mib").and_then(|item| reader.whole(item, 1..=1_u64 << 30));
    let per_gpu = fields.required("per_gpu").and_then(|item| reader.whole(item, 1..=7_u32));
    Some(MigProfile { name: name?, slices: slices?, memory_mib: memory_mib?, per_gpu: per_gpu? })
}
