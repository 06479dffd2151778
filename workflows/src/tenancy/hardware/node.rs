//! A node: the unit of hardware that has one owner, with its states.
//!
//! Invariant (I-1): `owner` changes only together with `owner_epoch`, by one, through the transitions here.

use crate::tenancy::{ClusterId, Gpu, NodeId, OwnerEpoch, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// The state of a node.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NodeState {
    /// Imported, not checked.
    Discovered,
    /// Checks before its first use are running.
    Validating,
    /// Available for claims.
    Free,
    /// Claimed by a tenant, not labelled yet.
    Claimed,
    /// Being labelled, partitioned and qualified for its tenant.
    Provisioning,
    /// Runs its tenant's workloads.
    InService,
    /// Takes no new workloads.
    Draining,
    /// Being sanitised; still its tenant's.
    Sanitizing,
    /// Unfit and out of use; still its owner's.
    Quarantined,
    /// In maintenance.
    Maintenance,
    /// Missing; still its owner's.
    Lost,
    /// Removed for good.
    Retired,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The serial number.
    pub id: NodeId,
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// The region.
    pub region: RegionId,
    /// The GPUs.
    pub gpu: Gpu,
    /// Thousandths of CPU cores.
    pub cpu_milli: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// The chunk of its pool that lists it while it is free.
    pub chunk: u32,
    /// The only tenant whose workloads may run on it.
    pub owner: Option<TenantId>,
    /// The number of its owner changes.
    pub owner_epoch: OwnerEpoch,
    /// The execution that claimed it.
    pub claimed_by: Option<ExecutionId>,
    /// The state.
    pub state: NodeState,
    /// The version of the GPU driver, once read.
    pub driver_version: Option<String>,
}

/// A rejected change of a node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// The node's state does not allow the change.
    #[error("node {node} is {state}, and cannot be {wanted}", state = <&str>::from(*.from))]
    State {
        /// The node.
        node: NodeId,
        /// The state.
        from: NodeState,
        /// The requested change.
        wanted: &'static str,
    },
    /// The caller's epoch is outdated: another change was faster.
    #[error("node {node} is at owner epoch {stands}, not {seen}: its owner changed meanwhile")]
    Epoch {
        /// The node.
        node: NodeId,
        /// The current epoch.
        stands: OwnerEpoch,
        /// The epoch of the caller.
        seen: OwnerEpoch,
    },
}

impl Entity for Node {
    const COLLECTION: &'static str = "nodes";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.id.to_string()
    }
}

impl Node {
    /// Returns the node as claimed by `tenant`, if it is free and `seen` is its epoch.
    ///
    /// # Errors
    /// [`NodeError`] if it is not free or its epoch has changed.
    pub fn claim(&self, tenant: &TenantId, by: ExecutionId, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Free], "claimed")?;
        Ok(Self {
            owner: Some(tenant.clone()),
            owner_epoch: self.owner_epoch.next(),
            claimed_by: Some(by),
            state: NodeState::Claimed,
            ..self.clone()
        })
    }

    /// Returns the node in provisioning for its tenant.
    ///
    /// # Errors
    /// [`NodeError`] if it is not claimed.
    pub fn provision(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Claimed, NodeState::Provisioning], "provisioned")?;
        Ok(self.in_state(NodeState::Provisioning))
    }

    /// Returns the node in service. From here on its tenant's data may be on it.
    ///
    /// # Errors
    /// [`NodeError`] if it is not provisioned.
    pub fn serve(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Provisioning, NodeState::InService], "put in service")?;
        Ok(self.in_state(NodeState::InService))
    }

    /// Returns the node as free, as before its claim. Allowed only if its tenant never ran a workload on it.
    ///
    /// # Errors
    /// [`NodeError`] if it was in service or is quarantined: then it must be sanitised first.
    pub fn unclaim(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(
            seen,
            &[NodeState::Claimed, NodeState::Provisioning],
            "freed without being sanitised",
        )?;
        Ok(self.disowned(NodeState::Free))
    }

    /// Returns the node in quarantine, with its owner.
    ///
    /// # Errors
    /// [`NodeError`] if it has no owner.
    pub fn quarantine(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        let owned = [
            NodeState::Claimed,
            NodeState::Provisioning,
            NodeState::InService,
            NodeState::Draining,
            NodeState::Sanitizing,
            NodeState::Quarantined,
        ];
        self.check_transition(seen, &owned, "quarantined")?;
        Ok(self.in_state(NodeState::Quarantined))
    }

    /// Returns the node as draining.
    ///
    /// # Errors
    /// [`NodeError`] if it is not in service.
    pub fn drain(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::InService, NodeState::Draining], "drained")?;
        Ok(self.in_state(NodeState::Draining))
    }

    /// Returns the node in sanitisation; still its tenant's.
    ///
    /// # Errors
    /// [`NodeError`] if it was not drained.
    pub fn sanitize(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        let from = [NodeState::Draining, NodeState::Quarantined, NodeState::Sanitizing];
        self.check_transition(seen, &from, "sanitised")?;
        Ok(self.in_state(NodeState::Sanitizing))
    }

    /// Returns the node without an owner, to be checked before it is free. The caller has the record of a passed sanitisation.
    ///
    /// # Errors
    /// [`NodeError`] if it is not being sanitised.
    pub fn clear(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Sanitizing], "cleared")?;
        Ok(self.disowned(NodeState::Validating))
    }

    /// Returns the node as free.
    ///
    /// # Errors
    /// [`NodeError`] if it was not checked.
    pub fn validate(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Validating], "freed")?;
        Ok(self.in_state(NodeState::Free))
    }

    /// Checks that the change may start: `seen` is the current epoch, and the state is one of `from`.
    fn check_transition(
        &self,
        seen: OwnerEpoch,
        from: &[NodeState],
        wanted: &'static str,
    ) -> Result<(), NodeError> {
        if seen != self.owner_epoch {
            return Err(NodeError::Epoch { node: self.id.clone(), stands: self.owner_epoch, seen });
        }
        if !from.contains(&self.state) {
            return Err(NodeError::State { node: self.id.clone(), from: self.state, wanted });
        }
        Ok(())
    }

    fn in_state(&self, state: NodeState) -> Self {
        Self { state, ..self.clone() }
    }

    fn disowned(&self, state: NodeState) -> Self {
        Self { owner: None, owner_epoch: self.owner_epoch.next(), claimed_by: None, state, ..self.clone() }
    }
}
