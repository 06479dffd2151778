//! What is known of GPU models. The inventory names a model and a count per node; single GPUs become known when a
//! node agent reports them.

use crate::tenancy::{GpuModel, Gpus};
use serde::{Deserialize, Serialize};

/// The GPUs of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gpu {
    /// Their model.
    pub model: GpuModel,
    /// How many.
    pub count: Gpus,
}

/// How GPUs are cut up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Layout {
    /// Not at all.
    Whole,
    /// In hardware, with memory and faults kept apart (MIG).
    Mig,
    /// In time only: no isolation, so only inside one tenant that allows it.
    TimeSliced,
}

impl Layout {
    /// The layout's name as the layout manager of nodes knows it. Slices are the smallest that `model` has (NVIDIA's MIG
    /// user guide, by memory of the model's largest card).
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
    /// Whether GPUs of `model` can be cut up in hardware (NVIDIA's MIG user guide, supported GPUs).
    #[must_use]
    pub fn mig_capable(model: &GpuModel) -> bool {
        ["A30", "A100", "H100", "H200", "H20", "GH200", "B200", "GB200"].contains(&model.as_str())
    }

    /// The finest layout that GPUs of `model` can have.
    #[must_use]
    pub fn finest_layout(model: &GpuModel) -> Layout {
        if Self::mig_capable(model) { Layout::Mig } else { Layout::TimeSliced }
    }
}
