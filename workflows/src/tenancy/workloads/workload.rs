//! A workload: what a workspace asks GPUs for, as the scheduler of its cluster knows it.

use crate::tenancy::{Amounts, NodeId, ObservedPlacement, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::{CompositeKey, ExecutionId, Timestamp};

/// What a workload is like.
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
    /// Somebody sits before it.
    Interactive,
}

/// How a workload saves its work before it is evicted.
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
    /// Not at all: what it did since it started is lost.
    #[default]
    None,
    /// On SIGTERM, within its grace.
    Signal,
    /// When asked to by a call.
    Api,
}

/// Where a workload stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum WorkloadState {
    /// In its workspace's line.
    Waiting,
    /// Its GPUs are its own to use.
    Admitted,
    /// Admitted, and being evicted by this execution; its GPUs count as used until they were observed free.
    Reclaimed {
        /// The execution that reclaims.
        by: ExecutionId,
    },
    /// It ended, or was withdrawn. An end.
    Finished,
    /// It can never fit, or policy forbids it. An end.
    Rejected,
}

/// Where the books plan a part of a workload. Its booking moves when a fact shows the workload elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placed {
    /// On which node.
    pub node: NodeId,
    /// Which of the node's GPUs, by index from 0, and how many slices of each (1 for a whole GPU).
    pub gpus: BTreeMap<u16, u16>,
}

/// A workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Workload {
    /// Its name within the tenant: the scheduler's uid, or any other of up to 64 characters.
    pub name: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// What it is like.
    pub class: WorkloadClass,
    /// Higher is more important.
    pub priority: i32,
    /// Whether it may be evicted for others. One that may not never borrows (I-11).
    pub preemptible: bool,
    /// How it saves its work.
    pub checkpoint: Checkpoint,
    /// What it asks for in all.
    pub requests: Amounts,
    /// The most GPUs that must lie on one node; the rest may be spread. 0 for anywhere.
    pub together: u64,
    /// Labels that pins of policy look at, such as `hipaa`.
    pub labels: BTreeSet<String>,
    /// Where it stands.
    pub state: WorkloadState,
    /// Where the books have it, while admitted: as planned, until its cluster says where it runs.
    pub placed: Vec<Placed>,
    /// Where its cluster's facts say that it runs. Never made from `placed`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed: Option<ObservedPlacement>,
    /// When it was first asked for; kept when it is put back in line, so that its place is.
    pub submitted_at: Timestamp,
    /// When it was admitted last.
    pub admitted_at: Option<Timestamp>,
    /// When it ended. `None` while it has not, and in documents of earlier versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// How often it was evicted for others.
    pub evictions: u32,
    /// The decision that stands: the id of a [`Admission`](crate::tenancy::Admission).
    pub decision: String,
}

impl Workload {
    /// The id of a tenant's workload.
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

    /// Until when it is kept: 400 days from its end. Earlier versions did not write down when that was: then from its last known change.
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
