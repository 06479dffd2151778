//! What is counted: GPUs by model, whole or in slices, and what goes with them.

use super::{GpuModel, Name, NameKind};
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
/// A slice profile as its maker spells it, such as `1g.10gb` (NVIDIA's MIG user guide).
pub type Profile = Name<OfProfile>;

/// GPUs of one model: whole cards, or slices of one profile. Two kinds are never counted together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GpuKind {
    /// The model.
    pub model: GpuModel,
    /// The profile of its slices; `None` for whole cards.
    pub profile: Option<Profile>,
}

impl GpuKind {
    /// Whole cards of `model`.
    #[must_use]
    pub fn whole(model: GpuModel) -> Self {
        Self { model, profile: None }
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

/// Something that a quota limits. Written `gpu/H100`, `gpu/H100/1g.10gb`, `cpu_milli`, `memory_mib`, `storage_gib`, `pods`.
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

/// So much of each resource; what is not named is none of it.
pub type Amounts = BTreeMap<Resource, u64>;

/// A text that names no resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{text:?} names no resource: write gpu/MODEL, gpu/MODEL/PROFILE, cpu_milli, memory_mib, storage_gib or pods{why}"
)]
pub struct ResourceError {
    /// The text, cut to 64 characters.
    pub text: String,
    /// What is wrong with a part of it, after a space; empty if none of it is understood.
    pub why: String,
}

impl Resource {
    /// Whole GPUs of `model`.
    #[must_use]
    pub fn gpus(model: GpuModel) -> Self {
        Self::Gpu(GpuKind::whole(model))
    }

    /// The kind of GPU, if it is one.
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

impl FromStr for Resource {
    type Err = ResourceError;

    fn from_str(text: &str) -> Result<Self, ResourceError> {
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
                let model = model.parse().map_err(|e| wrong(format!(" ({e})")))?;
                let profile = profile.map(Profile::from_str).transpose();
                Ok(Self::Gpu(GpuKind { model, profile: profile.map_err(|e| wrong(format!(" ({e})")))? }))
            }
        }
    }
}

impl TryFrom<String> for Resource {
    type Error = ResourceError;

    fn try_from(text: String) -> Result<Self, ResourceError> {
        text.parse()
    }
}

impl From<Resource> for String {
    fn from(resource: Resource) -> Self {
        resource.to_string()
    }
}

impl Serialize for GpuKind {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GpuKind {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match format!("gpu/{text}").parse() {
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
    fn a_resource_is_read_as_it_is_written() {
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
