//! Actions on the ownership of a node, as the cluster records it.

use crate::platform::{CallMetadata, Ownership, Platform, at_cluster};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// Assigns a node to a tenant: label, taint and the owner's epoch.
///
/// Safe to run twice: the same owner and epoch change nothing, and an older epoch is rejected. Its undo, [`ReturnNode`], tolerates that it never ran.
/// It uses up the epoch, so that a late attempt is rejected as well.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TakeNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The id of the new owner.
    pub tenant: String,
    /// The epoch of this ownership in the ledger. It grows by one with each change of owner.
    pub owner_epoch: u64,
}

/// Result of [`TakeNode`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTaken {
    /// The node's name.
    pub node: String,
    /// The epoch that the node has now.
    pub owner_epoch: u64,
}

impl Action for TakeNode {
    const NAME: &'static str = "TakeNode";
    type Platform = Platform;
    type Output = NodeTaken;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<NodeTaken, ActionError> {
        let to = owned(&self.tenant, self.owner_epoch);
        let now = on
            .kubernetes
            .take_node(&self.cluster, &self.node, &to, &CallMetadata::for_action(self, call))
            .await?;
        Ok(NodeTaken { node: self.node.clone(), owner_epoch: now.owner_epoch })
    }
}

/// Removes a tenant's ownership of a node. It cordons the node first, so that no new work starts, and removes the taint last.
///
/// Safe to run twice: a node that this tenant does not own at this epoch is left unchanged. As an undo it tolerates that the node was never taken, or
/// has another owner by now. It does not clean the node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReturnNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The id of the tenant that owns the node.
    pub tenant: String,
    /// The epoch of the ownership that ends.
    pub owner_epoch: u64,
}

impl TakeNode {
    /// Returns the undo.
    #[must_use]
    pub fn undo(&self) -> ReturnNode {
        let Self { cluster, node, tenant, owner_epoch } = self.clone();
        ReturnNode { cluster, node, tenant, owner_epoch }
    }
}

/// Result of [`ReturnNode`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReturned {
    /// The node's name.
    pub node: String,
    /// The node's current owner, if it is another tenant.
    pub owner: Option<String>,
}

impl Action for ReturnNode {
    const NAME: &'static str = "ReturnNode";
    type Platform = Platform;
    type Output = NodeReturned;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<NodeReturned, ActionError> {
        let (stamp, of) = (CallMetadata::for_action(self, call), owned(&self.tenant, self.owner_epoch));
        on.kubernetes.cordon_node(&self.cluster, &self.node, &of, &stamp.for_part("cordon")).await?;
        let now =
            on.kubernetes.return_node(&self.cluster, &self.node, &of, &stamp.for_part("return")).await?;
        Ok(NodeReturned { node: self.node.clone(), owner: now.tenant })
    }
}

fn owned(tenant: &str, owner_epoch: u64) -> Ownership {
    Ownership { tenant: Some(tenant.to_owned()), owner_epoch, cordoned: false }
}
