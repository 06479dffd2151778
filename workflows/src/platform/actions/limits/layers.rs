//! One limit in all layers of a platform: its names and its values.

use crate::platform::FlavorQuota;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The name of one workspace's resource in each layer. `None` if the layer does not count it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitNames {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// The name in the record of the tenant's cohort: `research/gpu/H100`.
    pub cohort: Option<String>,
    /// The name in the queue's flavors: the GPU model.
    pub queue: Option<String>,
    /// The name in the namespace's resource quota: `requests.nvidia.com/gpu`.
    pub hard: Option<String>,
    /// The name in the association's `GrpTRES`: `gres/gpu:h100`.
    pub association: Option<String>,
}

/// The value of one limit in each layer. `None` if the layer has no value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerLimits {
    /// The value in the record of the tenant's cohort.
    pub cohort: Option<u64>,
    /// The value in the workspace's queue.
    pub queue: Option<FlavorQuota>,
    /// The value in the namespace's resource quota, in Kubernetes' unit.
    pub hard: Option<u64>,
    /// The value in the association's `GrpTRES`, in Slurm's unit.
    pub association: Option<u64>,
}

/// Result of the undo of a change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitRestored {
    /// The value from before the change is in effect.
    Before,
    /// Another client has set a different value since. It was left.
    Left {
        /// The current value.
        now: Value,
    },
}
