//! A workspace's quota, in Kueue's terms.

use crate::tenancy::{GpuKind, Gpus, Resource, TenantId, WorkspaceName, workspace_key};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{ExecutionId, Timestamp};

/// The quota of a workspace in a request. `None` means no limit, as in Kueue.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaLimits {
    /// The own GPUs.
    pub nominal: Gpus,
    /// GPUs that it may borrow from the tenant's other workspaces.
    pub borrowing_limit: Option<Gpus>,
    /// Own GPUs that it lends while idle.
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
    /// Returns the limits by resource; GPUs are counted in pieces of `kind`. An unlimited resource has no entry.
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

/// The allowance of a workspace for one resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowance {
    /// The own quota.
    pub nominal: u64,
    /// The most that it may borrow beyond; `None` for no limit.
    pub borrowing_limit: Option<u64>,
    /// The most of its own quota that it lends while idle; `None` for all of it.
    pub lending_limit: Option<u64>,
}

impl Allowance {
    /// No limit, without lending or borrowing: the allowance of a resource that no quota names.
    pub const UNLIMITED: Self = Self { nominal: u64::MAX, borrowing_limit: Some(0), lending_limit: Some(0) };

    /// Returns the own quota, if it is limited.
    #[must_use]
    pub fn limit(&self) -> Option<u64> {
        Some(self.nominal).filter(|nominal| *nominal < Self::UNLIMITED.nominal)
    }

    /// Creates an allowance of `most` without lending or borrowing.
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
    /// The allowances from then on.
    pub then: BTreeMap<Resource, Allowance>,
}

/// The quota in force for one workspace. The head for grants. Its usage is in the [`Cohort`](crate::tenancy::Cohort), which copies the allowances and is
/// written in the same commit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Quota {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// By resource. A kind of GPU without an entry may not be used; any other resource without one is unlimited.
    pub allowances: BTreeMap<Resource, Allowance>,
    /// The number of its changes, from 1.
    pub version: u32,
    /// The execution that set it.
    pub set_by: ExecutionId,
    /// The end of a temporary quota.
    pub ends: Option<QuotaEnd>,
}

impl Entity for Quota {
    const COLLECTION: &'static str = "quotas";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        workspace_key(&self.tenant, &self.workspace)
    }
}
