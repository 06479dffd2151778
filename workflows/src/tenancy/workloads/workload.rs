//! A workload: a request for GPUs by a workspace, named as in the scheduler of its cluster.

use crate::tenancy::{Amounts, NodeId, ObservedPlacement, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::{CompositeKey, ExecutionId, Timestamp};

/// The class of a workload.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
    strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WorkloadClass {
    /// Serves users until it is stopped.
    Service,
    /// Works until it is done.
    Batch,
    /// A user works in it.
    Interactive,
}

/// The checkpoint support of a workload before its eviction.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Checkpoint {
    /// None; all work since its start is lost.
    #[default]
    None,
    /// On SIGTERM, within its grace.
    Signal,
    /// On request, by a call.
    Api,
}

/// The state of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WorkloadState {
    /// In its workspace's queue.
    Waiting,
    /// It has its GPUs.
    Admitted,
    /// Admitted, and being evicted by this execution. Its GPUs count as used until they are observed free.
    Reclaimed {
        /// The execution of the reclaim.
        by: ExecutionId,
    },
    /// It ended or was withdrawn. Final.
    Finished,
    /// It can never fit, or policy forbids it. Final.
    Rejected,
}

/// The planned placement of a part of a workload. It moves if a fact shows the workload elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// The node.
    pub node: NodeId,
    /// The node's GPUs by index from 0, each with the number of slices (1 for a whole GPU).
    pub gpus: BTreeMap<u16, u16>,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// The name, unique within the tenant: the scheduler's uid, or any other of up to 64 characters.
    pub name: String,
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The class.
    pub class: WorkloadClass,
    /// The priority. A higher value is more important.
    pub priority: i32,
    /// True if it may be evicted for other workloads. Otherwise it never borrows (I-11).
    pub preemptible: bool,
    /// The checkpoint support.
    pub checkpoint: Checkpoint,
    /// The total requested amounts.
    pub requests: Amounts,
    /// The number of GPUs that must be on one node; the rest may be spread. 0 allows any nodes.
    pub together: u64,
    /// Labels that policy pins match, such as `hipaa`.
    pub labels: BTreeSet<String>,
    /// The state.
    pub state: WorkloadState,
    /// The planned placement while admitted, updated when its cluster reports the real one.
    pub placed: Vec<Placed>,
    /// The placement that its cluster's facts report. Never derived from `placed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedPlacement>,
    /// When it was first submitted; kept when it is requeued, so that it keeps its place.
    pub submitted_at: Timestamp,
    /// When it was last admitted.
    pub admitted_at: Option<Timestamp>,
    /// When it ended. Also `None` in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The number of its evictions for other workloads.
    pub evictions: u32,
    /// The id of the [`Admission`](crate::tenancy::Admission) in force.
    pub decision: String,
}

impl Workload {
    /// Returns the id of a tenant's workload.
    #[must_use]
    pub fn key(tenant: &TenantId, name: &str) -> String {
        CompositeKey::of(&[&tenant]).tail(name).into()
    }

    /// Returns true if it has finished or was rejected.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        match self.state {
            WorkloadState::Finished | WorkloadState::Rejected => true,
            WorkloadState::Waiting | WorkloadState::Admitted | WorkloadState::Reclaimed { .. } => false,
        }
    }

    /// Returns the end of its retention: 400 days after its end, or after its last known change in documents of earlier versions.
    fn done_with(&self) -> Option<Timestamp> {
        let seen = self.observed.iter().flat_map(|seen| seen.nodes.values().filter_map(|part| part.since));
        let changes = seen.chain(self.admitted_at).chain([self.submitted_at]);
        let last_change = changes.fold(self.submitted_at, Timestamp::max);
        self.has_ended().then(|| self.ended_at.unwrap_or(last_change).after(engine::DAY * 400))
    }
}

impl Entity for Workload {
    const COLLECTION: &'static str = "workloads";
    const RETENTION: engine::Retention<Self> = engine::Retention::Until(Self::done_with);

    fn id(&self) -> String {
        Self::key(&self.tenant, &self.name)
    }
}
