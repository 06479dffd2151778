//! Which GPUs of a tenant's nodes are in use: a head with the room on each node, and a document per node that names who
//! uses which GPU.

use super::gpu_bars::GpuBars;
use crate::tenancy::{
    ClusterId, GpuKind, GpuModel, NodeId, OwnerEpoch, Profile, RegionId, TenantId, WorkspaceName,
};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Timestamp;

/// What one node has of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRoom {
    /// GPUs or slices that may be used.
    pub capacity: u64,
    /// Those that nobody uses.
    pub free: u64,
    /// Free ones that the platform saw in use, or missing: nobody is admitted to them until it sees them free.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub astray: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl NodeRoom {
    /// What may be given away.
    #[must_use]
    pub fn assignable(&self) -> u64 {
        self.free.saturating_sub(self.astray)
    }
}

/// The room on a tenant's nodes. A head document: every allocation rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// Whose nodes these are.
    pub tenant: TenantId,
    /// The cluster they lie in.
    pub cluster: ClusterId,
    /// Its region.
    pub region: RegionId,
    /// By node and kind. A node that takes no new work is not listed.
    pub nodes: BTreeMap<NodeId, BTreeMap<GpuKind, NodeRoom>>,
    /// Counts how often a node was seen otherwise than the ledger has it.
    pub drifts: u64,
}

impl Occupancy {
    /// The most nodes of one tenant. A decision about its quota reads them all, about 110 bytes each; the store has them as pages.
    pub const MOST_NODES: usize = 20_000;
}

impl Entity for Occupancy {
    const COLLECTION: &'static str = "occupancies";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}

/// When the platform last said what is really free in a tenant's nodes; admission does not go by older words than policy
/// allows. Apart from the [`Occupancy`], which few looks change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastObservation {
    /// Whose nodes.
    pub tenant: TenantId,
    /// When.
    pub at: Timestamp,
}

impl Entity for LastObservation {
    const COLLECTION: &'static str = "sightings";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}

/// Who uses a part of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUser {
    /// The workload's name.
    pub workload: String,
    /// Its workspace.
    pub workspace: WorkspaceName,
    /// How many slices; 1 for a whole GPU.
    pub slices: u16,
    /// Whether it does not run yet: the GPU was freed for it, or set aside, and has not been granted.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_transit: bool,
}

/// One GPU of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUse {
    /// The profile that it is cut into; `None` when it is whole. Changes only while nobody uses it.
    pub profile: Option<Profile>,
    /// How many slices it has; 1 when it is whole.
    pub slices: u16,
    /// Who uses it; in sum never more than `slices`.
    pub users: Vec<GpuUser>,
    /// Why it may not be used, such as a failed scrub.
    pub barred: Option<String>,
}

/// The GPUs of one node of a tenant, by index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeUse {
    /// Which node.
    pub node: NodeId,
    /// Whose it is; only this tenant's workloads use it (I-3).
    pub tenant: TenantId,
    /// The epoch since which it is.
    pub epoch: OwnerEpoch,
    /// Its GPUs, by index.
    pub gpus: Vec<GpuUse>,
    /// Their model.
    pub model: GpuModel,
    /// Whether it takes new work; its GPUs are in the [`Occupancy`] while it does.
    pub serving: bool,
    /// When the use of it changed last; older observations of it say nothing.
    pub changed_at: Timestamp,
    /// Its GPUs that are barred by UUID; those that are barred by index alone are not among them.
    #[serde(default, skip_serializing_if = "GpuBars::is_empty")]
    pub bars: GpuBars,
}

impl Entity for NodeUse {
    const COLLECTION: &'static str = "node-uses";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.node.to_string()
    }
}
