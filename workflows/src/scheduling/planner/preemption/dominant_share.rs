//! The dominant share of a node, compared without rounding.

use crate::scheduling::planner::{
    Weight,
    model::cohort_tree::{KindIx, NodeIx, TreeOverlay},
};
use std::{cmp::Ordering, collections::HashMap};

/// A node's usage above its own quota, as a part of the amount that its parent could lend, divided by its weight. Taken from the resource with the largest
/// part.
#[derive(Clone, Copy, Debug)]
pub(in crate::scheduling::planner) struct Share {
    /// True if it exceeds its own quota of any resource, even if its parent can lend nothing.
    pub(in crate::scheduling::planner) borrowing: bool,
    /// True if its weight is zero and its share is not. Such a share ranks above all others.
    boundless: bool,
    above: u128,
    below: u128,
}

impl Share {
    const NONE: Self = Self { borrowing: false, boundless: false, above: 0, below: 1 };
}

fn ratio(a: (u128, u128), b: (u128, u128)) -> Ordering {
    // Products of two 128-bit numbers, as high and low halves.
    let (left_low, left_high) = a.0.carrying_mul(b.1, 0);
    let (right_low, right_high) = b.0.carrying_mul(a.1, 0);
    (left_high, left_low).cmp(&(right_high, right_low))
}

impl Ord for Share {
    fn cmp(&self, other: &Self) -> Ordering {
        self.boundless
            .cmp(&other.boundless)
            .then_with(|| ratio((self.above, self.below), (other.above, other.below)))
    }
}

impl PartialOrd for Share {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Share {}

/// The shares of nodes. The lendable amount of each parent is computed once.
pub(in crate::scheduling::planner) struct Shares<'a> {
    /// The resource index of each kind.
    resources: &'a [usize],
    lendable: HashMap<NodeIx, Vec<i128>>,
}

impl<'a> Shares<'a> {
    pub(in crate::scheduling::planner) fn new(resources: &'a [usize]) -> Self {
        Self { resources, lendable: HashMap::new() }
    }

    fn lendable(&mut self, sim: &TreeOverlay<'_>, parent: NodeIx) -> &[i128] {
        let resources = self.resources;
        self.lendable.entry(parent).or_insert_with(|| {
            let root = sim.tree.root(parent);
            let mut sums = vec![0; resources.iter().max().map_or(0, |most| most + 1)];
            for (kind, resource) in resources.iter().enumerate() {
                if sim.tree.row(root, kind).declared
                    && let Some(sum) = sums.get_mut(*resource)
                {
                    *sum += sim.potential(parent, kind);
                }
            }
            sums
        })
    }

    /// Returns the share of a node in this state of the tree.
    pub(in crate::scheduling::planner) fn share_of(
        &mut self,
        sim: &TreeOverlay<'_>,
        node: NodeIx,
        weight: Weight,
    ) -> Share {
        let Some(parent) = sim.tree.parent(node) else { return Share::NONE };
        let mut borrowed: Vec<(usize, i128)> = Vec::new();
        for (kind, resource) in self.resources.iter().enumerate() {
            let above = above(sim, node, kind);
            if above <= 0 {
                continue;
            }
            match borrowed.iter_mut().find(|(other, _)| other == resource) {
                Some((_, sum)) => *sum += above,
                None => borrowed.push((*resource, above)),
            }
        }
        if borrowed.is_empty() {
            return Share::NONE;
        }
        let lendable = self.lendable(sim, parent);
        let (mut most, mut of) = (0, 1);
        for (resource, sum) in borrowed {
            let can_lend = lendable.get(resource).copied().unwrap_or_default();
            let (Ok(sum), Ok(can_lend)) = (u128::try_from(sum), u128::try_from(can_lend)) else { continue };
            if can_lend > 0 && ratio((sum, can_lend), (most, of)).is_gt() {
                (most, of) = (sum, can_lend);
            }
        }
        let boundless = weight.get() == 0 && most > 0;
        // Weights are below 2^45 and sums of amounts below 2^83 for a million children.
        let below = if boundless || most == 0 { of } else { of.saturating_mul(u128::from(weight.get())) };
        Share { borrowing: true, boundless, above: most, below }
    }
}

fn above(sim: &TreeOverlay<'_>, node: NodeIx, kind: KindIx) -> i128 {
    let row = sim.tree.row(node, kind);
    if row.declared { sim.usage(node, kind) - row.subtree } else { 0 }
}
