//! What a tenant holds: the nodes claimed for it, with their epochs. The head for every question about its capacity.

use crate::tenancy::{ClusterId, GpuModel, Gpus, NodeId, OwnerEpoch, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::ExecutionId;

/// One node of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedNode {
    /// Its GPUs.
    pub gpus: Gpus,
    /// Its epoch since it was claimed.
    pub epoch: OwnerEpoch,
}

/// The nodes of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAllocation {
    /// Whose they are.
    pub tenant: TenantId,
    /// The execution that claimed them.
    pub claimed_by: ExecutionId,
    /// The cluster they all lie in.
    pub cluster: ClusterId,
    /// Its region.
    pub region: RegionId,
    /// Their GPU model.
    pub model: GpuModel,
    /// Nodes that serve, or will.
    pub nodes: BTreeMap<NodeId, AllocatedNode>,
    /// Nodes that proved unfit: kept apart, and still the tenant's until they are sanitised.
    pub quarantined: BTreeSet<NodeId>,
}

impl NodeAllocation {
    /// GPUs that can serve.
    #[must_use]
    pub fn owned(&self) -> Gpus {
        self.nodes.values().map(|held| held.gpus).sum()
    }
}

impl Entity for NodeAllocation {
    const COLLECTION: &'static str = "holdings";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}
