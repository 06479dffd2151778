//! The nodes claimed for a tenant, with their epochs. The head for every decision about its capacity.

use crate::tenancy::{ClusterId, GpuModel, Gpus, NodeId, OwnerEpoch, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use store::ExecutionId;

/// One node of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedNode {
    /// The GPUs.
    pub gpus: Gpus,
    /// The epoch of the claim.
    pub epoch: OwnerEpoch,
}

/// The nodes of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAllocation {
    /// The tenant.
    pub tenant: TenantId,
    /// The execution that claimed them.
    pub claimed_by: ExecutionId,
    /// The cluster of all nodes.
    pub cluster: ClusterId,
    /// The region.
    pub region: RegionId,
    /// Their GPU model.
    pub model: GpuModel,
    /// Nodes in service or in provisioning.
    pub nodes: BTreeMap<NodeId, AllocatedNode>,
    /// Unfit nodes in quarantine; still the tenant's until they are sanitised.
    pub quarantined: BTreeSet<NodeId>,
}

impl NodeAllocation {
    /// Returns the number of usable GPUs.
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
