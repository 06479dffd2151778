//! What the layers of a platform say of one resource.

use crate::platform::FlavorQuota;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// One resource of one workspace, by the name that each layer has for it; `None` where a layer does not count it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitNames {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
    /// Of which of its workspaces.
    pub workspace: String,
    /// In the record of the tenant's cohort: `research/gpu/H100`.
    pub cohort: Option<String>,
    /// Of the queue's flavors: the GPU model.
    pub queue: Option<String>,
    /// In the namespace's resource quota: `requests.nvidia.com/gpu`.
    pub hard: Option<String>,
    /// In the association's `GrpTRES`: `gres/gpu:h100`.
    pub association: Option<String>,
}

/// What the layers say of one resource; `None` where one says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerLimits {
    /// In the record of the tenant's cohort.
    pub cohort: Option<u64>,
    /// In the workspace's queue.
    pub queue: Option<FlavorQuota>,
    /// In the namespace's resource quota, in Kubernetes' unit.
    pub hard: Option<u64>,
    /// In the association's `GrpTRES`, in Slurm's unit.
    pub association: Option<u64>,
}

/// What an undo of a change learns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitRestored {
    /// It is as it was before the change.
    Before,
    /// Somebody has set it to something else since: it was left so.
    Left {
        /// What it says.
        now: Value,
    },
}
