//! The GPUs in use on a tenant's nodes: a head with the room on each node, and a document per node with the users of each GPU.

use super::gpu_bars::GpuBars;
use crate::tenancy::{
    ClusterId, GpuKind, GpuModel, NodeId, OwnerEpoch, Profile, RegionId, TenantId, WorkspaceName,
};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::Timestamp;

/// The room of one node for one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRoom {
    /// Usable GPUs or slices.
    pub capacity: u64,
    /// Unused ones.
    pub free: u64,
    /// Free ones that were observed in use or missing. No workload is admitted to them until they are observed free.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub astray: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl NodeRoom {
    /// Returns the number that can be assigned.
    #[must_use]
    pub fn assignable(&self) -> u64 {
        self.free.saturating_sub(self.astray)
    }
}

/// The room on a tenant's nodes. A head document: every allocation rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Occupancy {
    /// The tenant.
    pub tenant: TenantId,
    /// The cluster of the nodes.
    pub cluster: ClusterId,
    /// The region.
    pub region: RegionId,
    /// By node and kind. A node that takes no new workloads is not listed.
    pub nodes: BTreeMap<NodeId, BTreeMap<GpuKind, NodeRoom>>,
    /// The number of times that a node was observed in another state than in the ledger.
    pub drifts: u64,
}

impl Occupancy {
    /// The most nodes of one tenant. A decision about its quota reads all of them, about 110 bytes each; the store splits them into pages.
    pub const MOST_NODES: usize = 20_000;
}

impl Entity for Occupancy {
    const COLLECTION: &'static str = "occupancies";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}

/// The time of the latest observation of a tenant's nodes. Admission rejects observations older than policy allows. Separate from [`Occupancy`], which few
/// observations change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastObservation {
    /// The tenant.
    pub tenant: TenantId,
    /// The time.
    pub at: Timestamp,
}

impl Entity for LastObservation {
    const COLLECTION: &'static str = "sightings";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}

/// A user of a part of a GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUser {
    /// The workload's name.
    pub workload: String,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The number of slices; 1 for a whole GPU.
    pub slices: u16,
    /// True if it does not run yet: the GPU was freed or earmarked for it, and not granted yet.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_transit: bool,
}

/// One GPU of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuUse {
    /// The slice profile; `None` for a whole GPU. Changes only while the GPU is unused.
    pub profile: Option<Profile>,
    /// The number of slices; 1 for a whole GPU.
    pub slices: u16,
    /// The users; in sum at most `slices`.
    pub users: Vec<GpuUser>,
    /// The reason why it may not be used, such as a failed scrub.
    pub barred: Option<String>,
}

/// The GPUs of one node of a tenant, by index.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeUse {
    /// The node.
    pub node: NodeId,
    /// The tenant; only its workloads use the node (I-3).
    pub tenant: TenantId,
    /// The epoch of that tenant.
    pub epoch: OwnerEpoch,
    /// The GPUs by index.
    pub gpus: Vec<GpuUse>,
    /// Their model.
    pub model: GpuModel,
    /// True if it takes new workloads. The GPUs are then listed in [`Occupancy`].
    pub serving: bool,
    /// The last change of its use. Older observations of it are ignored.
    pub changed_at: Timestamp,
    /// The GPUs barred by UUID; without those barred by index only.
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
