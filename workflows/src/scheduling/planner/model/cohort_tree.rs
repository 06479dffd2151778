//! Quota arithmetic over the tree of cohorts, as Kueue's `resource_node.go` defines it.
//!
//! A node's usage counts in its parent only above the node's local quota. Sums of 64-bit amounts use 128 bits, so they neither overflow nor saturate.

use crate::scheduling::planner::Quota;
use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

/// The index of a workspace or cohort in the snapshot.
pub(in crate::scheduling::planner) type NodeIx = u32;
/// The index of a kind in the snapshot.
pub(in crate::scheduling::planner) type KindIx = usize;

/// One kind's quota at one node.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::scheduling::planner) struct NodeQuota {
    /// True if a quota was set here or, for a cohort, below. Only fair shares use it.
    pub(in crate::scheduling::planner) declared: bool,
    pub(in crate::scheduling::planner) quota: Quota,
    /// The own nominal quota plus the quota that its children lend.
    pub(in crate::scheduling::planner) subtree: i128,
}

impl NodeQuota {
    /// Returns the quota that the node never lends.
    pub(in crate::scheduling::planner) fn local(&self) -> i128 {
        self.quota.lending_limit.map_or(0, |limit| (self.subtree - i128::from(limit)).max(0))
    }
}

/// One kind over all nodes.
#[derive(Clone, Debug, Default)]
pub(in crate::scheduling::planner) struct KindColumn {
    pub(in crate::scheduling::planner) rows: Vec<NodeQuota>,
    pub(in crate::scheduling::planner) usage: Vec<i128>,
}

/// The tree: parents and children, quotas and usage.
#[derive(Clone, Debug, Default)]
pub(in crate::scheduling::planner) struct CohortTree {
    pub(in crate::scheduling::planner) parents: Vec<Option<NodeIx>>,
    pub(in crate::scheduling::planner) columns: Vec<KindColumn>,
    /// Children above their own quota, by parent and kind.
    pub(in crate::scheduling::planner) over: BTreeMap<(NodeIx, KindIx), BTreeSet<NodeIx>>,
}

pub(in crate::scheduling::planner) fn slot(node: NodeIx) -> usize {
    node as usize
}

impl CohortTree {
    pub(in crate::scheduling::planner) fn add(&mut self, parent: Option<NodeIx>) -> NodeIx {
        let node = NodeIx::try_from(self.parents.len()).unwrap_or(NodeIx::MAX);
        self.parents.push(parent);
        for column in &mut self.columns {
            column.rows.push(NodeQuota::default());
            column.usage.push(0);
        }
        node
    }

    pub(in crate::scheduling::planner) fn add_kind(&mut self) -> KindIx {
        let nodes = self.parents.len();
        self.columns.push(KindColumn { rows: vec![NodeQuota::default(); nodes], usage: vec![0; nodes] });
        self.columns.len() - 1
    }

    pub(in crate::scheduling::planner) fn parent(&self, node: NodeIx) -> Option<NodeIx> {
        self.parents.get(slot(node)).copied().flatten()
    }

    /// Returns the node and all nodes above it, the root last.
    pub(in crate::scheduling::planner) fn path(&self, node: NodeIx) -> impl Iterator<Item = NodeIx> {
        std::iter::successors(Some(node), |node| self.parent(*node))
    }

    pub(in crate::scheduling::planner) fn root(&self, node: NodeIx) -> NodeIx {
        self.path(node).last().unwrap_or(node)
    }

    pub(in crate::scheduling::planner) fn row(&self, node: NodeIx, kind: KindIx) -> NodeQuota {
        self.columns.get(kind).and_then(|column| column.rows.get(slot(node))).copied().unwrap_or_default()
    }

    pub(in crate::scheduling::planner) fn usage(&self, node: NodeIx, kind: KindIx) -> i128 {
        self.columns.get(kind).and_then(|column| column.usage.get(slot(node))).copied().unwrap_or_default()
    }

    /// Adds usage to a node and, where it counts there, to the nodes above it.
    pub(in crate::scheduling::planner) fn charge(&mut self, node: NodeIx, kind: KindIx, amount: i128) {
        let mut touched = Vec::new();
        if let Some(column) = self.columns.get_mut(kind) {
            charge(&self.parents, &column.rows, &mut column.usage, node, amount, |node| touched.push(node));
        }
        for node in touched {
            self.note_over(node, kind);
        }
    }

    /// Sets a node's quota, and recomputes quota and usage of the nodes above it.
    pub(in crate::scheduling::planner) fn set_quota(&mut self, node: NodeIx, kind: KindIx, quota: Quota) {
        let (mut change, mut used) = (i128::from(quota.nominal), 0);
        let mut own = Some(quota);
        let path: Vec<NodeIx> = self.path(node).collect();
        for node in path {
            let Some(column) = self.columns.get_mut(kind) else { return };
            let (Some(row), Some(usage)) =
                (column.rows.get_mut(slot(node)), column.usage.get_mut(slot(node)))
            else {
                return;
            };
            let lent = row.subtree - row.local();
            let counted = (*usage - row.local()).max(0);
            if let Some(quota) = own.take() {
                change -= i128::from(row.quota.nominal);
                row.quota = quota;
            }
            row.declared = true;
            row.subtree += change;
            *usage += used;
            change = row.subtree - row.local() - lent;
            used = (*usage - row.local()).max(0) - counted;
            self.note_over(node, kind);
        }
    }

    fn note_over(&mut self, node: NodeIx, kind: KindIx) {
        let Some(parent) = self.parent(node) else { return };
        if self.usage(node, kind) > self.row(node, kind).subtree {
            self.over.entry((parent, kind)).or_default().insert(node);
        } else if let Some(over) = self.over.get_mut(&(parent, kind)) {
            over.remove(&node);
            if over.is_empty() {
                self.over.remove(&(parent, kind));
            }
        }
    }
}

fn charge(
    parents: &[Option<NodeIx>],
    rows: &[NodeQuota],
    usage: &mut [i128],
    node: NodeIx,
    amount: i128,
    mut touched: impl FnMut(NodeIx),
) {
    let (mut node, mut amount) = (node, amount);
    while amount != 0 {
        let (Some(row), Some(used)) = (rows.get(slot(node)), usage.get_mut(slot(node))) else { return };
        let local = row.local();
        let counted = (*used - local).max(0);
        *used += amount;
        amount = (*used - local).max(0) - counted;
        touched(node);
        let Some(parent) = parents.get(slot(node)).copied().flatten() else { return };
        node = parent;
    }
}

/// The tree with workloads removed and returned, without a change of the snapshot. Copies a kind's usage on its first change.
pub(in crate::scheduling::planner) struct TreeOverlay<'a> {
    pub(in crate::scheduling::planner) tree: &'a CohortTree,
    usage: Vec<Cow<'a, [i128]>>,
}

impl<'a> TreeOverlay<'a> {
    pub(in crate::scheduling::planner) fn new(tree: &'a CohortTree) -> Self {
        Self {
            tree,
            usage: tree.columns.iter().map(|column| Cow::Borrowed(column.usage.as_slice())).collect(),
        }
    }

    pub(in crate::scheduling::planner) fn usage(&self, node: NodeIx, kind: KindIx) -> i128 {
        self.usage.get(kind).and_then(|usage| usage.get(slot(node))).copied().unwrap_or_default()
    }

    pub(in crate::scheduling::planner) fn charge(&mut self, node: NodeIx, kind: KindIx, amount: i128) {
        let (Some(column), Some(usage)) = (self.tree.columns.get(kind), self.usage.get_mut(kind)) else {
            return;
        };
        charge(&self.tree.parents, &column.rows, usage.to_mut(), node, amount, |_| ());
    }

    /// Returns how much more a workspace can get, including loans from its cohorts; at least 0.
    pub(in crate::scheduling::planner) fn available(&self, node: NodeIx, kind: KindIx) -> i128 {
        self.room(node, kind, |node| self.usage(node, kind)).max(0)
    }

    /// Returns how much it could get if nothing were in use.
    pub(in crate::scheduling::planner) fn potential(&self, node: NodeIx, kind: KindIx) -> i128 {
        self.room(node, kind, |_| 0)
    }

    fn room(&self, node: NodeIx, kind: KindIx, usage: impl Fn(NodeIx) -> i128) -> i128 {
        let path: Vec<NodeIx> = self.tree.path(node).collect();
        let mut room: Option<i128> = None;
        for node in path.into_iter().rev() {
            let (row, used) = (self.tree.row(node, kind), usage(node));
            let local = row.local();
            room = Some(match room {
                None => row.subtree - used,
                Some(above) => {
                    let stored = row.subtree - local - (used - local).max(0);
                    let limit = row.quota.borrowing_limit.map(|limit| stored + i128::from(limit));
                    (local - used).max(0) + limit.map_or(above, |limit| limit.min(above))
                }
            });
        }
        room.unwrap_or_default()
    }

    /// Returns true if the node would exceed its own quota with this additional amount.
    pub(in crate::scheduling::planner) fn borrows_with(
        &self,
        node: NodeIx,
        kind: KindIx,
        amount: i128,
    ) -> bool {
        self.usage(node, kind) + amount > self.tree.row(node, kind).subtree
    }

    /// Returns true if the node uses no more than its own quota of each of these kinds.
    pub(in crate::scheduling::planner) fn within(&self, node: NodeIx, kinds: &[KindIx]) -> bool {
        kinds.iter().all(|kind| !self.borrows_with(node, *kind, 0))
    }
}
