//! The counted resources: GPUs by model, whole or in slices, and CPU, memory, storage and pods.

use super::{GpuModel, Name, NameKind, canonical_gpu_name};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, fmt, str::FromStr};

/// Marks names of slice profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OfProfile;
impl NameKind for OfProfile {
    const WORD: &'static str = "slice profile";
    const LONGEST: usize = 27;
    const LOOSE: bool = true;
}
/// A slice profile in its vendor's spelling, such as `1g.10gb` (NVIDIA's MIG user guide).
pub type Profile = Name<OfProfile>;

/// GPUs of one model: whole GPUs, or slices of one profile. Kinds are always counted separately.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuKind {
    /// The model.
    pub model: GpuModel,
    /// The profile of its slices; `None` for whole GPUs.
    pub profile: Option<Profile>,
}

impl GpuKind {
    /// Creates the kind of whole GPUs of `model`.
    #[must_use]
    pub fn whole(model: GpuModel) -> Self {
        Self { model, profile: None }
    }

    /// Returns the kind under the ledger's name of a node's `model`, if it is another name of that model.
    #[must_use]
    pub fn on(self, model: &GpuModel) -> Self {
        let (name, profile) = canonical_gpu_name(self.model.as_str());
        if name != canonical_gpu_name(model.as_str()).0 {
            return self;
        }
        let profile = self.profile.or_else(|| profile?.parse().ok());
        Self { model: model.clone(), profile }
    }
}

impl fmt::Display for GpuKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.profile {
            Some(profile) => write!(f, "{}/{profile}", self.model),
            None => self.model.fmt(f),
        }
    }
}

/// A resource that a quota limits. Written `gpu/H100`, `gpu/H100/1g.10gb`, `cpu_milli`, `memory_mib`, `storage_gib`, `pods`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Resource {
    /// GPUs, or slices of them, in pieces.
    Gpu(GpuKind),
    /// CPU, in thousandths of a core.
    CpuMilli,
    /// Memory, in MiB.
    MemoryMib,
    /// Storage, in GiB.
    StorageGib,
    /// Pods, or jobs on Slurm, in pieces.
    Pods,
}

/// Amounts by resource. A missing resource has the amount 0.
pub type Amounts = BTreeMap<Resource, u64>;

/// A text that names no resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no resource: write gpu/MODEL, gpu/MODEL/PROFILE, cpu_milli, memory_mib, storage_gib or pods{why}"
)]
pub struct ResourceError {
    /// The text, cut to 64 characters.
    pub text: String,
    /// The problem of a part of it, after a space; empty if no part is valid.
    pub why: String,
}

impl Resource {
    /// Creates the resource of whole GPUs of `model`.
    #[must_use]
    pub fn gpus(model: GpuModel) -> Self {
        Self::Gpu(GpuKind::whole(model))
    }

    /// Returns the kind of GPU, if it is one.
    #[must_use]
    pub fn gpu(&self) -> Option<&GpuKind> {
        match self {
            Self::Gpu(kind) => Some(kind),
            Self::CpuMilli | Self::MemoryMib | Self::StorageGib | Self::Pods => None,
        }
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpu(kind) => write!(f, "gpu/{kind}"),
            Self::CpuMilli => f.write_str("cpu_milli"),
            Self::MemoryMib => f.write_str("memory_mib"),
            Self::StorageGib => f.write_str("storage_gib"),
            Self::Pods => f.write_str("pods"),
        }
    }
}

/// Parses text from a user or a file: a model by any of its names, and a MIG product as slices of its profile.
impl FromStr for Resource {
    type Err = ResourceError;

    fn from_str(text: &str) -> Result<Self, ResourceError> {
        let Some(kind) = text.strip_prefix("gpu/") else { return Self::stored(text) };
        let (model, profile) = match kind.rsplit_once('/') {
            Some((model, profile)) => (canonical_gpu_name(model).0, Some(profile.to_owned())),
            None => canonical_gpu_name(kind),
        };
        let profile = profile.map(|profile| format!("/{profile}")).unwrap_or_default();
        Self::stored(&format!("gpu/{model}{profile}"))
    }
}

impl Resource {
    /// Parses stored text without changing names.
    fn stored(text: &str) -> Result<Self, ResourceError> {
        let wrong = |why: String| ResourceError { text: text.chars().take(64).collect(), why };
        match text {
            "cpu_milli" => Ok(Self::CpuMilli),
            "memory_mib" => Ok(Self::MemoryMib),
            "storage_gib" => Ok(Self::StorageGib),
            "pods" => Ok(Self::Pods),
            _ => {
                let kind = text.strip_prefix("gpu/").ok_or_else(|| wrong(String::new()))?;
                let (model, profile) = match kind.split_once('/') {
                    Some((model, profile)) => (model, Some(profile)),
                    None => (kind, None),
                };
                let model = GpuModel::try_from(model.to_owned()).map_err(|e| wrong(format!(" ({e})")))?;
                let profile = profile.map(Profile::from_str).transpose();
                Ok(Self::Gpu(GpuKind { model, profile: profile.map_err(|e| wrong(format!(" ({e})")))? }))
            }
        }
    }
}

impl TryFrom<String> for Resource {
    type Error = ResourceError;

    fn try_from(text: String) -> Result<Self, ResourceError> {
        Self::stored(&text)
    }
}

impl From<Resource> for String {
    fn from(resource: Resource) -> Self {
        resource.to_string()
    }
}

/// Parses text from a user or a file, as for [`Resource`].
impl FromStr for GpuKind {
    type Err = ResourceError;

    fn from_str(text: &str) -> Result<Self, ResourceError> {
        let unknown = || ResourceError { text: text.chars().take(64).collect(), why: String::new() };
        match format!("gpu/{text}").parse::<Resource>()? {
            Resource::Gpu(kind) => Ok(kind),
            Resource::CpuMilli | Resource::MemoryMib | Resource::StorageGib | Resource::Pods => {
                Err(unknown())
            }
        }
    }
}

/// Deserialises a field from a user, such as a model or a resource in a request. Accepts any of its names.
///
/// # Errors
/// Text that cannot be parsed.
pub fn as_written<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
}

/// Same as [`as_written`], for an optional field.
///
/// # Errors
/// Text that cannot be parsed.
pub fn as_written_if_any<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    text.map(|text| text.parse()).transpose().map_err(serde::de::Error::custom)
}

impl Serialize for GpuKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GpuKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match Resource::stored(&format!("gpu/{text}")) {
            Ok(Resource::Gpu(kind)) => Ok(kind),
            Ok(_) => Err(serde::de::Error::custom(format!("{text:?} names no GPU model"))),
            Err(error) => Err(serde::de::Error::custom(error)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_accept_any_alias_of_a_model_and_stored_names_are_read_unchanged() {
        for (text, resource) in [
            ("gpu/h100", "gpu/H100"),
            ("gpu/NVIDIA H100 80GB HBM3", "gpu/H100"),
            ("gpu/h100/1g.10gb", "gpu/H100/1g.10gb"),
            ("gpu/NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "gpu/A100/1g.10gb"),
        ] {
            assert_eq!(text.parse::<Resource>().unwrap().to_string(), resource);
        }
        let stored: Resource = serde_json::from_str("\"gpu/h100\"").unwrap();
        assert_eq!(stored.to_string(), "gpu/h100");
    }

    #[test]
    fn a_resource_is_parsed_from_its_own_output() {
        for text in ["gpu/H100", "gpu/H100/1g.10gb", "cpu_milli", "memory_mib", "storage_gib", "pods"] {
            let resource: Resource = text.parse().unwrap();
            assert_eq!(resource.to_string(), text);
            assert_eq!(serde_json::to_value(&resource).unwrap(), text);
        }
        for text in ["", "gpu", "gpu/", "gpu/H100/", "gpu/H100/a/b", "GPU/H100", "cpu"] {
            assert!(text.parse::<Resource>().is_err(), "{text}");
        }
    }
}
