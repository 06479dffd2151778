//! Moves bookings within a node to the very GPUs on which workloads were seen.
//!
//! Invariant: each workload keeps as many GPUs on the node as it had, and no plan moves to a barred GPU.

use super::relocate::{EarlierSightings, Moves, Sighting};
use crate::{
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::{GpuUse, NodeId, NodeUse, ObservedPlacement},
};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};

/// GPUs by node.
pub(super) type GpusByNode = BTreeMap<NodeId, BTreeSet<u16>>;

/// Returns the GPUs that a placement names on each node. A node on which not every GPU is known has none.
pub(super) fn by_node(placement: &ObservedPlacement) -> GpusByNode {
    let named = placement.indexes().into_iter();
    named.filter_map(|(node, gpus)| Some((node.parse().ok()?, gpus))).collect()
}

impl AdmissionTx {
    /// Gives workloads the GPUs on which they were seen, on nodes where they have as many others.
    pub(super) fn relocate_within_nodes(
        &mut self,
        view: &mut View,
        sightings: &BTreeMap<String, Sighting>,
        earlier: EarlierSightings,
        moves: &mut Moves,
    ) -> Result<(), Undecided> {
        let mut wrong = Vec::new();
        for (name, sighting) in sightings {
            let Some(workload) = self.workload(view, name)? else { continue };
            for part in &workload.placed {
                let seen = sighting.gpus.get(&part.node).filter(|seen| !seen.is_empty());
                if let Some(seen) = seen.filter(|seen| !part.gpus.keys().eq(seen.iter())) {
                    wrong.push((name, part.node.clone(), seen));
                }
            }
        }
        view.prefetch::<NodeUse>(wrong.iter().map(|(_, id, _)| id.to_string()))?;
        for (name, id, seen) in wrong {
            let Some(mut node) = self.node(view, &id)?.cloned() else { continue };
            let before = node.changed_at;
            let firm = self.users_seen_there(view, &node, sightings, earlier)?;
            let changed = move_to(&mut node, name, seen, &firm);
            if changed.is_empty() {
                continue;
            }
            moves.changed_before.entry(id.clone()).or_insert(before);
            self.change_node(view, &id, |there| *there = node)?;
            for other in &changed {
                self.follow_booking(view, other, [id.clone()])?;
            }
            moves.moved.insert(name.clone());
        }
        Ok(())
    }

    /// The GPUs of a node of which the user was seen on that very GPU.
    fn users_seen_there(
        &mut self,
        view: &mut View,
        node: &NodeUse,
        sightings: &BTreeMap<String, Sighting>,
        earlier: EarlierSightings,
    ) -> Result<BTreeSet<u16>, Undecided> {
        let mut firm = BTreeSet::new();
        for name in node.workloads() {
            let seen = match sightings.get(name) {
                Some(sighting) => sighting.gpus.get(&node.node).cloned(),
                None if earlier == EarlierSightings::MakeWay => None,
                None => {
                    let known = self.workload(view, name)?.and_then(|known| known.observed.as_ref());
                    known.and_then(|observed| by_node(observed).remove(&node.node))
                }
            };
            firm.extend(
                indexes(node, |gpu| uses(gpu, name))
                    .filter(|index| seen.as_ref().is_some_and(|seen| seen.contains(index))),
            );
        }
        Ok(firm)
    }
}

fn uses(gpu: &GpuUse, workload: &str) -> bool {
    gpu.users.iter().any(|user| user.workload == workload)
}

/// The whole GPUs of a node for which `which` holds.
fn indexes<'a>(node: &'a NodeUse, which: impl Fn(&GpuUse) -> bool + 'a) -> impl Iterator<Item = u16> + 'a {
    let all = (0_u16..).zip(&node.gpus);
    all.filter(move |(_, gpu)| gpu.profile.is_none() && which(gpu)).map(|(index, _)| index)
}

/// Exchanges the GPUs that a workload is booked on with those on which it was seen. The users of GPUs in `firm` stay. Answers the
/// workloads of which a booking changed.
fn move_to(
    node: &mut NodeUse,
    workload: &str,
    seen: &BTreeSet<u16>,
    firm: &BTreeSet<u16>,
) -> BTreeSet<String> {
    let wanted: Vec<u16> = indexes(node, |gpu| !uses(gpu, workload))
        .filter(|index| seen.contains(index) && !firm.contains(index))
        .collect();
    let mut given_up: Vec<u16> =
        indexes(node, |gpu| uses(gpu, workload)).filter(|index| !seen.contains(index)).collect();
    let mut changed = BTreeSet::new();
    for to in wanted {
        let used = node.gpus.get(usize::from(to)).is_some_and(|gpu| !gpu.users.is_empty());
        // A plan that makes way gets a GPU that may be used.
        let open = |index: &u16| node.gpus.get(usize::from(*index)).is_some_and(|gpu| gpu.barred.is_none());
        let Some(at) = given_up.iter().position(|index| !used || open(index)) else { continue };
        let from = given_up.remove(at);
        let ours = node.gpus.get_mut(usize::from(from)).map(|gpu| std::mem::take(&mut gpu.users));
        let theirs = node
            .gpus
            .get_mut(usize::from(to))
            .map(|gpu| std::mem::replace(&mut gpu.users, ours.unwrap_or_default()))
            .unwrap_or_default();
        changed.extend(theirs.iter().map(|user| user.workload.clone()));
        changed.insert(workload.to_owned());
        if let Some(gpu) = node.gpus.get_mut(usize::from(from)) {
            gpu.users = theirs;
        }
    }
    changed
}
