//! Nodes that leave the fleet, or move to another cluster, while they are free.
//!
//! Called by the routes of nodes, each in one commit that its requester's audit entry belongs to. Invariant: a node that has an owner,
//! or is not free for another reason, is left as it is.

use crate::{
    ledger::pool_index::PoolIndex,
    tenancy::{Cluster, ClusterId, Node, NodeId, NodeState},
};
use engine::{ActionError, Undecided, View};

/// The code of a change that a node does not allow because it is not free.
pub const NODE_NOT_FREE: &str = "node.not_free";

/// Takes a free node out of the fleet for good. One that is retired already is left as it is.
///
/// # Errors
/// What the view lacks; permanent `ledger.missing` for a node that is not known, `node.not_free`.
pub fn retire_node(view: &mut View, id: &NodeId) -> Result<Node, Undecided> {
    let node = view.require::<Node>(id.as_str())?;
    if node.state == NodeState::Retired {
        return Ok(node);
    }
    require_free(&node, "retired")?;
    let mut pools = PoolIndex::default();
    pools.delist(view, &node)?;
    let retired = Node { state: NodeState::Retired, ..node };
    view.put(&retired)?;
    pools.save(view)?;
    Ok(retired)
}

/// Moves a free node to another cluster. One that is in it already is left as it is.
///
/// # Errors
/// What the view lacks; permanent `ledger.missing` for a node or a cluster that is not known, `node.not_free`.
pub fn move_node(view: &mut View, id: &NodeId, to: &ClusterId) -> Result<Node, Undecided> {
    let node = view.require::<Node>(id.as_str())?;
    let mut target = view.require::<Cluster>(to.as_str())?;
    if node.cluster == target.id {
        return Ok(node);
    }
    require_free(&node, "moved")?;
    let mut pools = PoolIndex::default();
    pools.delist(view, &node)?;
    let mut moved = Node { cluster: target.id.clone(), region: target.region.clone(), ..node };
    pools.enlist(view, &mut moved)?;
    view.put(&moved)?;
    pools.save(view)?;
    if target.models.insert(moved.gpu.model.clone()) {
        view.put(&target)?;
    }
    Ok(moved)
}

fn require_free(node: &Node, wanted: &str) -> Result<(), Undecided> {
    if node.state == NodeState::Free && node.owner.is_none() {
        return Ok(());
    }
    let state = <&str>::from(node.state);
    let owner =
        node.owner.as_ref().map_or_else(String::new, |owner| format!(" and belongs to tenant {owner}"));
    let problem = format!("node {} is {state}{owner}; only a free node can be {wanted}", node.id);
    Err(ActionError::permanent(NODE_NOT_FREE, problem).into())
}
