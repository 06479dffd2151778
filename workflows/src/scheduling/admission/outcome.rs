//! Side effects of a change of the account that the caller must act on.

use crate::{
    tenancy::{Admission, Resource, TenantId, WorkspaceName},
    workload_start::WorkloadStart,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// A workload within its workspace's own quota that waits because other workspaces use that quota. A reclaim must start at once. Its name consists of tenant,
/// kind and workload, so that repeated starts create one reclaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimDemand {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The workload.
    pub workload: String,
    /// The kind.
    pub resource: Resource,
    /// The requested amount.
    pub wanted: u64,
    /// The start of its wait.
    pub since: Timestamp,
    /// The deadline of the promise: `since` plus the deadline of the reservation, or that of policy.
    pub deadline: Timestamp,
    /// The time between a victim's notice and its eviction.
    pub grace: Duration,
}

/// Usage rose above a soft threshold (S-124). Reported once until usage falls below the level that arms it again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdCrossed {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The resource.
    pub resource: Resource,
    /// The threshold, in thousandths of the nominal quota.
    pub at: u64,
    /// The usage.
    pub used: u64,
    /// The nominal quota.
    pub nominal: u64,
}

/// Side effects of a change, in addition to its result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionEffects {
    /// Queued workloads that the same commit admits.
    pub admitted: Vec<Admission>,
    /// Demands that need a reclaim.
    pub demands: Vec<ReclaimDemand>,
    /// Soft thresholds that usage rose above.
    pub crossings: Vec<ThresholdCrossed>,
    /// True if more workloads can be admitted than one commit allows: call [`admit_queued`](crate::scheduling::admission::admit_queued) next.
    pub more: bool,
    /// Workload starts that the commit requests.
    #[serde(skip)]
    pub(in crate::scheduling::admission) starts: Vec<WorkloadStart>,
}
