//! A workspace's quota, in Kueue's words.

use super::{GpuModel, Gpus, TenantId, WorkspaceName, workspace_key};
use engine::Entity;
use serde::{Deserialize, Serialize};

/// How much a workspace may use. `None` means without limit, as in Kueue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// GPUs that are its own.
    pub nominal: Gpus,
    /// GPUs that it may borrow from the tenant's other workspaces.
    pub borrowing_limit: Option<Gpus>,
    /// GPUs of its own that it lends while idle.
    pub lending_limit: Option<Gpus>,
    /// Thousandths of CPU cores.
    pub cpu_milli: Option<u64>,
    /// Memory in MiB.
    pub memory_mib: Option<u64>,
    /// Storage in GiB.
    pub storage_gib: Option<u64>,
    /// Pods, or jobs on Slurm.
    pub pods: Option<u64>,
}

/// The quota in force for one workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Whose it is.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// The GPU model that is counted.
    pub model: GpuModel,
    /// How much.
    pub limits: Limits,
    /// Counts its changes, from 1.
    pub version: u32,
}

impl Entity for Quota {
    const COLLECTION: &'static str = "quotas";

    fn id(&self) -> String {
        workspace_key(&self.tenant, &self.workspace)
    }
}
