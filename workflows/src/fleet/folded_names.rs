//! Node names that differ only in case. Kubernetes treats them as one name.
//!
//! Called by the import of nodes. A node with capitals in its name is listed under the lower-case name, because a decision cannot query ranges; a name without
//! capitals is its own key. Invariant: no two nodes of the fleet have the same lower-case name.

use crate::tenancy::{Node, NodeId};
use engine::{Entity, Undecided, View};
use serde::{Deserialize, Serialize};

/// The node whose name has capitals.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoldedName {
    /// The lower-case name.
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

/// Returns the lower-case name.
pub(super) fn folded(node: &NodeId) -> String {
    node.as_str().to_ascii_lowercase()
}

/// Requests all documents of [`same_name`] at once.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub(super) fn prefetch<'a>(
    view: &View,
    nodes: impl Iterator<Item = &'a NodeId> + Clone,
) -> Result<(), Undecided> {
    view.prefetch::<Node>(nodes.clone().map(folded))?;
    view.prefetch::<FoldedName>(nodes.map(folded))
}

/// Returns another node whose name differs from that of `node` only in case.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
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
/// Undecided until the view has loaded every needed document.
pub(super) fn list(view: &mut View, node: &NodeId) -> Result<(), Undecided> {
    let listed = FoldedName { folded: folded(node), node: node.clone() };
    if listed.folded == node.as_str() || view.get::<FoldedName>(&listed.folded)?.as_ref() == Some(&listed) {
        return Ok(());
    }
    view.put(&listed)
}
