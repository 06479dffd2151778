//! A node: the unit of hardware that has one owner, and the states it goes through.
//!
//! Invariant (I-1): `owner` changes only together with `owner_epoch`, by one, through the transitions here.

use crate::tenancy::{ClusterId, Gpu, NodeId, OwnerEpoch, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::ExecutionId;

/// Where a node stands.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, strum::VariantArray,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum NodeState {
    /// Seen, and nothing more.
    Discovered,
    /// Being checked before it may be used.
    Validating,
    /// May be claimed.
    Free,
    /// A tenant's, and not yet labelled as such.
    Claimed,
    /// Being labelled, shaped and qualified for its tenant.
    Provisioning,
    /// Runs its tenant's work.
    InService,
    /// Runs no new work.
    Draining,
    /// Being wiped; still its tenant's.
    Sanitizing,
    /// Unfit; kept apart, and still its owner's.
    Quarantined,
    /// Being worked on.
    Maintenance,
    /// Not seen any more; still its owner's.
    Lost,
    /// Gone for good.
    Retired,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its serial number.
    pub id: NodeId,
    /// The cluster it belongs to.
    pub cluster: ClusterId,
    /// Where it stands.
    pub region: RegionId,
    /// Its GPUs.
    pub gpu: Gpu,
    /// Thousandths of CPU cores.
    pub cpu_milli: u64,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Which chunk of its pool lists it while it is free.
    pub chunk: u32,
    /// The only tenant whose work may run on it.
    pub owner: Option<TenantId>,
    /// Counts its changes of owner.
    pub owner_epoch: OwnerEpoch,
    /// The execution that claimed it.
    pub claimed_by: Option<ExecutionId>,
    /// Where it stands.
    pub state: NodeState,
    /// The GPU driver, once read.
    pub driver_version: Option<String>,
}

/// A change that a node does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NodeError {
    /// It is not where the change starts.
    #[error("node {node} is {state} and cannot be {wanted}", state = <&str>::from(*.from))]
    State {
        /// Which node.
        node: NodeId,
        /// Where it stands.
        from: NodeState,
        /// What was wanted of it.
        wanted: &'static str,
    },
    /// The epoch seen is not the one that stands: someone else was faster.
    #[error("node {node} is at owner epoch {stands}, not {seen}: it changed hands meanwhile")]
    Epoch {
        /// Which node.
        node: NodeId,
        /// What stands.
        stands: OwnerEpoch,
        /// What the caller had seen.
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
    /// The node in the hands of `tenant`, if it is free and `seen` is its epoch.
    ///
    /// # Errors
    /// [`NodeError`] when it is not free or changed hands since it was seen.
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

    /// The node while it is made ready for its tenant.
    ///
    /// # Errors
    /// [`NodeError`] when it is not claimed.
    pub fn provision(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Claimed, NodeState::Provisioning], "provisioned")?;
        Ok(self.in_state(NodeState::Provisioning))
    }

    /// The node at its tenant's service: from here its tenant's data may be on it.
    ///
    /// # Errors
    /// [`NodeError`] when it has not been provisioned.
    pub fn serve(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Provisioning, NodeState::InService], "put in service")?;
        Ok(self.in_state(NodeState::InService))
    }

    /// The node free again, as if it had not been claimed: only while its tenant never ran anything on it.
    ///
    /// # Errors
    /// [`NodeError`] when it has been in service, or is kept apart: then only sanitising frees it.
    pub fn unclaim(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(
            seen,
            &[NodeState::Claimed, NodeState::Provisioning],
            "freed without being sanitised",
        )?;
        Ok(self.disowned(NodeState::Free))
    }

    /// The node kept apart, with its owner.
    ///
    /// # Errors
    /// [`NodeError`] when nobody owns it.
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

    /// The node running no new work.
    ///
    /// # Errors
    /// [`NodeError`] when it is not in service.
    pub fn drain(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::InService, NodeState::Draining], "drained")?;
        Ok(self.in_state(NodeState::Draining))
    }

    /// The node being wiped; still its tenant's.
    ///
    /// # Errors
    /// [`NodeError`] when its work has not been drained.
    pub fn sanitize(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        let from = [NodeState::Draining, NodeState::Quarantined, NodeState::Sanitizing];
        self.check_transition(seen, &from, "sanitised")?;
        Ok(self.in_state(NodeState::Sanitizing))
    }

    /// The node without an owner, to be checked before it is free; the caller holds the record of a passed sanitising.
    ///
    /// # Errors
    /// [`NodeError`] when it is not being sanitised.
    pub fn clear(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Sanitizing], "cleared")?;
        Ok(self.disowned(NodeState::Validating))
    }

    /// The node ready to be claimed.
    ///
    /// # Errors
    /// [`NodeError`] when it has not been checked.
    pub fn validate(&self, seen: OwnerEpoch) -> Result<Self, NodeError> {
        self.check_transition(seen, &[NodeState::Validating], "freed")?;
        Ok(self.in_state(NodeState::Free))
    }

    /// Whether the change `wanted` may start: `seen` is the epoch that stands, and the state is one of `from`.
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
