//! Node names that differ in case alone: they are one name to Kubernetes, and to people.
//!
//! Called by the import of nodes. A node whose name has capitals is listed under the name without them, since a decision cannot ask
//! for a range; a name without capitals is its own key. Invariant: no two nodes of the fleet fold to one name.

use crate::tenancy::{Node, NodeId};
use engine::{Entity, Undecided, View};
use serde::{Deserialize, Serialize};

/// The node that has a name with capitals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedName {
    /// The name without capitals.
    pub folded: String,
    /// The node.
    pub node: NodeId,
}

impl Entity for FoldedName {
    const COLLECTION: &'static str = "node-names";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        self.folded.clone()
    }
}

/// The name without capitals.
pub(super) fn folded(node: &NodeId) -> String {
    node.as_str().to_ascii_lowercase()
}

/// Asks for all that [`same_name`] looks at, at once.
///
/// # Errors
/// What the view lacks.
pub(super) fn prefetch<'a>(
    view: &View,
    nodes: impl Iterator<Item = &'a NodeId> + Clone,
) -> Result<(), Undecided> {
    view.prefetch::<Node>(nodes.clone().map(folded))?;
    view.prefetch::<FoldedName>(nodes.map(folded))
}

/// Another node whose name differs from that of `node` in case alone.
///
/// # Errors
/// What the view lacks.
pub(super) fn same_name(view: &mut View, node: &NodeId) -> Result<Option<NodeId>, Undecided> {
    let key = folded(node);
    if let Some(other) = view.get::<Node>(&key)?.filter(|other| other.id != *node) {
        return Ok(Some(other.id));
    }
    let Some(listed) = view.get::<FoldedName>(&key)?.filter(|listed| listed.node != *node) else {
        return Ok(None);
    };
    Ok(view.get::<Node>(listed.node.as_str())?.map(|other| other.id))
}

/// Lists a node whose name has capitals.
///
/// # Errors
/// What the view lacks.
pub(super) fn list(view: &mut View, node: &NodeId) -> Result<(), Undecided> {
    let listed = FoldedName { folded: folded(node), node: node.clone() };
    if listed.folded == node.as_str() || view.get::<FoldedName>(&listed.folded)?.as_ref() == Some(&listed) {
        return Ok(());
    }
    view.put(&listed)
}
