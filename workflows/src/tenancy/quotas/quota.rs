//! A workspace's quota, in Kueue's words.

use crate::tenancy::{GpuKind, Gpus, Resource, TenantId, WorkspaceName, workspace_key};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{ExecutionId, Timestamp};

/// How much a workspace may use, as a request says it. `None` means without limit, as in Kueue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaLimits {
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

impl QuotaLimits {
    /// The same, by resource; GPUs are counted in pieces of `kind`. What is not limited has no entry.
    #[must_use]
    pub fn allowances(&self, kind: &GpuKind) -> BTreeMap<Resource, Allowance> {
        let whole = |gpus: Gpus| u64::from(gpus.0);
        let gpus = Allowance {
            nominal: whole(self.nominal),
            borrowing_limit: self.borrowing_limit.map(whole),
            lending_limit: self.lending_limit.map(whole),
        };
        let others = [
            (Resource::CpuMilli, self.cpu_milli),
            (Resource::MemoryMib, self.memory_mib),
            (Resource::StorageGib, self.storage_gib),
            (Resource::Pods, self.pods),
        ];
        let mut all = BTreeMap::from([(Resource::Gpu(kind.clone()), gpus)]);
        all.extend(
            others.into_iter().filter_map(|(resource, most)| Some((resource, Allowance::fixed(most?)))),
        );
        all
    }
}

/// How much of one resource a workspace may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// What is its own.
    pub nominal: u64,
    /// What it may use beyond, while others leave it idle; `None` for no limit.
    pub borrowing_limit: Option<u64>,
    /// What it lends of its own while idle; `None` for all of it.
    pub lending_limit: Option<u64>,
}

impl Allowance {
    /// As much as anybody wants, neither lent nor borrowed: what stands for a resource that no quota names.
    pub const UNLIMITED: Self = Self { nominal: u64::MAX, borrowing_limit: Some(0), lending_limit: Some(0) };

    /// What is its own, if that is limited.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        Some(self.nominal).filter(|nominal| *nominal < Self::UNLIMITED.nominal)
    }

    /// `most`, neither lent nor borrowed.
    #[must_use]
    pub fn fixed(most: u64) -> Self {
        Self { nominal: most, borrowing_limit: Some(0), lending_limit: Some(0) }
    }
}

/// The end of a temporary quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaEnd {
    /// When it ends.
    pub at: Timestamp,
    /// What holds from then on.
    pub then: BTreeMap<Resource, Allowance>,
}

/// The quota in force for one workspace. The head for what was granted; what is used of it stands in the
/// [`Cohort`](crate::tenancy::Cohort), which repeats the allowances and is written in the same commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// Whose it is.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// By resource. A kind of GPU without an entry may not be used; anything else without one has no limit.
    pub allowances: BTreeMap<Resource, Allowance>,
    /// Counts its changes, from 1.
    pub version: u32,
    /// The execution that set it.
    pub set_by: ExecutionId,
    /// When it ends by itself, if it does.
    pub ends: Option<QuotaEnd>,
}

impl Entity for Quota {
    const COLLECTION: &'static str = "quotas";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        workspace_key(&self.tenant, &self.workspace)
    }
}
