//! Facts of GPU models. The inventory has a model and a count per node; node agents report single GPUs.

use crate::tenancy::{GpuModel, Gpus};
use serde::{Deserialize, Serialize};

/// The GPUs of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Their model.
    pub model: GpuModel,
    /// The number.
    pub count: Gpus,
}

/// The partition of GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Layout {
    /// Whole GPUs.
    Whole,
    /// Hardware slices with isolated memory and faults (MIG).
    Mig,
    /// Shared by time without isolation, so only inside one tenant that allows it.
    TimeSliced,
}

impl Layout {
    /// Returns the layout's name in the layout manager of nodes. Slices are the smallest of `model` (NVIDIA's MIG user guide, by memory of the model's largest
    /// card).
    #[must_use]
    pub fn profile(self, model: &GpuModel) -> &'static str {
        match self {
            Self::Whole => "all-disabled",
            Self::TimeSliced => "time-sliced",
            Self::Mig => match model.as_str() {
                "A30" => "all-1g.6gb",
                "H20" | "GH200" => "all-1g.12gb",
                "H200" => "all-1g.18gb",
                "B200" | "GB200" => "all-1g.23gb",
                _ => "all-1g.10gb",
            },
        }
    }
}

impl Gpu {
    /// Returns true if GPUs of `model` support hardware slices (NVIDIA's MIG user guide, supported GPUs).
    #[must_use]
    pub fn mig_capable(model: &GpuModel) -> bool {
        ["A30", "A100", "H100", "H200", "H20", "GH200", "B200", "GB200"].contains(&model.as_str())
    }

    /// Returns the finest layout of GPUs of `model`.
    #[must_use]
    pub fn finest_layout(model: &GpuModel) -> Layout {
        if Self::mig_capable(model) { Layout::Mig } else { Layout::TimeSliced }
    }
}
