//! What else a change of the account came to, for the caller to act on.

use crate::{
    tenancy::{Admission, Resource, TenantId, WorkspaceName},
    workload_start::WorkloadStart,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::Timestamp;

/// A workload inside its workspace's own quota that must wait because others use what is promised to it: to be answered by
/// a reclaim at once. Named by tenant, kind and workload, so that starting one twice starts one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReclaimDemand {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Which workload.
    pub workload: String,
    /// Of which kind.
    pub resource: Resource,
    /// How much it asks for.
    pub wanted: u64,
    /// Since when it waits.
    pub since: Timestamp,
    /// When the promise is broken: since plus the reservation's deadline, or policy's.
    pub deadline: Timestamp,
    /// How long a victim has between notice and eviction.
    pub grace: Duration,
}

/// A soft threshold was crossed upwards (S-124): told once until usage fell below where it is armed again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdCrossed {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Of what.
    pub resource: Resource,
    /// The threshold, in thousandths of the nominal.
    pub at: u64,
    /// What is used.
    pub used: u64,
    /// The nominal.
    pub nominal: u64,
}

/// What a change came to beside its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AdmissionEffects {
    /// Workloads that left the line in the same commit.
    pub admitted: Vec<Admission>,
    /// Demands to be answered by a reclaim.
    pub demands: Vec<ReclaimDemand>,
    /// Soft thresholds that were crossed.
    pub crossings: Vec<ThresholdCrossed>,
    /// Whether more could be admitted than one commit takes: call [`admit_queued`](crate::scheduling::admission::admit_queued) next.
    pub more: bool,
    /// Starts that the commit asks for.
    #[serde(skip)]
    pub(in crate::scheduling::admission) starts: Vec<WorkloadStart>,
}
