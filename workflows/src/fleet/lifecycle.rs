//! Removes free nodes from the fleet, or moves them to another cluster.
//!
//! Called by the routes of nodes. Each change and its audit entry are one commit. Invariant: a node with an owner, or in another state than free, is not
//! changed.

use crate::{
    ledger::pool_index::PoolIndex,
    tenancy::{Cluster, ClusterId, Node, NodeId, NodeState},
};
use engine::{ActionError, Undecided, View};

/// The code of a change that requires a free node.
pub const NODE_NOT_FREE: &str = "node.not_free";

/// Removes a free node from the fleet for good. Tolerates a retired node.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `ledger.missing` for an unknown node, `node.not_free`.
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

/// Moves a free node to another cluster. Tolerates a node that is already in it.
///
/// # Errors
/// Undecided until the view has loaded every needed document; permanent `ledger.missing` for an unknown node or cluster, `node.not_free`.
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
