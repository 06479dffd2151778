//! Whose a node is, as the cluster sees it.

use crate::platform::{CallMetadata, Ownership, Platform, at_cluster};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// Gives a node to a tenant: label, taint and the owner's epoch.
///
/// Safe to run twice: the same owner and epoch again change nothing, and an older epoch is refused. Its undo,
/// [`ReturnNode`], tolerates that it never ran, and spends the epoch so that a late attempt is refused too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TakeNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// To whom it goes.
    pub tenant: String,
    /// The epoch of this ownership in our ledger: one more at each change of owner.
    pub owner_epoch: u64,
}

/// What [`TakeNode`] learns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeTaken {
    /// Which node.
    pub node: String,
    /// The epoch that the node bears.
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

/// Takes a node back from a tenant: cordon first, so that nothing starts meanwhile, and the taint last.
///
/// Safe to run twice: a node that is not this tenant's at this epoch is left as it is. As an undo it tolerates a node
/// that was never taken, and one that has gone to another owner since. It does not clean the node.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReturnNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// From whom it comes.
    pub tenant: String,
    /// The epoch of the ownership that ends.
    pub owner_epoch: u64,
}

/// What [`ReturnNode`] learns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeReturned {
    /// Which node.
    pub node: String,
    /// Who owns it after all, if it had gone to another.
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
