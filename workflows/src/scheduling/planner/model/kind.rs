//! The counted kinds: GPUs by model, MIG slices by model and profile, CPU and memory.

use serde::{Deserialize, Serialize};
use std::{fmt, str::FromStr};

/// The resource name of a whole GPU, as Kubernetes writes it.
const GPU: &str = "nvidia.com/gpu";
/// The prefix of the Kubernetes resource name of a MIG slice.
const SLICE: &str = "nvidia.com/mig-";

/// A kind of resource, written `flavor/resource`: `h100/nvidia.com/gpu`, `h100/nvidia.com/mig-1g.10gb`, `default/cpu`.
///
/// A slice is a kind of its own. Freed slices serve demands for their profile. They never add up to a GPU, because the layout of their GPU stays.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceKind {
    flavor: String,
    resource: String,
}

impl ResourceKind {
    /// Whole GPUs of a model.
    #[must_use]
    pub fn gpu(model: &str) -> Self {
        Self { flavor: model.to_owned(), resource: GPU.to_owned() }
    }

    /// MIG slices of a profile (`1g.10gb`) on GPUs of a model.
    #[must_use]
    pub fn slice(model: &str, profile: &str) -> Self {
        Self { flavor: model.to_owned(), resource: format!("{SLICE}{profile}") }
    }

    /// CPU, in thousandths of a core.
    #[must_use]
    pub fn cpu() -> Self {
        Self { flavor: "default".to_owned(), resource: "cpu".to_owned() }
    }

    /// Memory, in bytes.
    #[must_use]
    pub fn memory() -> Self {
        Self { flavor: "default".to_owned(), resource: "memory".to_owned() }
    }

    /// Returns the GPU model, or the flavor of a resource that is not a device.
    #[must_use]
    pub fn flavor(&self) -> &str {
        &self.flavor
    }

    /// Returns the resource name. Fair shares sum all flavors of a resource.
    #[must_use]
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// Returns true if it is a whole GPU.
    #[must_use]
    pub fn is_gpu(&self) -> bool {
        self.resource == GPU
    }

    /// Returns true if it is a GPU or a slice. Guard and placement consider only these.
    #[must_use]
    pub fn is_device(&self) -> bool {
        self.is_gpu() || self.resource.starts_with(SLICE)
    }
}

impl fmt::Display for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.flavor, self.resource)
    }
}

/// A text that does not name a kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a kind of resource; write flavor/resource, for example h100/nvidia.com/gpu")]
pub struct ParseKindError(String);

impl FromStr for ResourceKind {
    type Err = ParseKindError;

    fn from_str(text: &str) -> Result<Self, ParseKindError> {
        match text.split_once('/') {
            Some((flavor, resource)) if !flavor.is_empty() && !resource.is_empty() => {
                Ok(Self { flavor: flavor.to_owned(), resource: resource.to_owned() })
            }
            Some(_) | None => Err(ParseKindError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for ResourceKind {
    type Error = ParseKindError;

    fn try_from(text: String) -> Result<Self, ParseKindError> {
        text.parse()
    }
}

impl From<ResourceKind> for String {
    fn from(kind: ResourceKind) -> Self {
        kind.to_string()
    }
}
