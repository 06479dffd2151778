//! Moves bookings within a node to the exact GPUs on which workloads were observed.
//!
//! Invariant: each workload keeps its number of GPUs on the node, and no plan moves to a barred GPU. An earmark does not move to a GPU on which the workload
//! that displaces it was observed.

use super::relocate::{EarlierSightings, Moves, Sighting};
use crate::{
    scheduling::admission::unit_of_work::AdmissionTx,
    tenancy::{GpuUse, GpuUser, NodeId, NodeUse, ObservedPlacement},
};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};

/// GPUs by node.
pub(super) type GpusByNode = BTreeMap<NodeId, BTreeSet<u16>>;

/// Returns the GPUs that a placement names on each node. A node with an unknown GPU gets none.
pub(super) fn by_node(placement: &ObservedPlacement) -> GpusByNode {
    let named = placement.indexes().into_iter();
    named.filter_map(|(node, gpus)| Some((node.parse().ok()?, gpus))).collect()
}

impl AdmissionTx {
    /// Moves workloads to the GPUs on which they were observed, on nodes where they are booked on as many others.
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
            let Some(node) = self.node(view, &id)?.cloned() else { continue };
            moves.changed_before.entry(id.clone()).or_insert(node.changed_at);
            let firm = self.users_seen_there(view, &node, sightings, earlier)?;
            let ran_on = sightings.get(name).and_then(|sighting| sighting.workload.observed.as_ref());
            let ran_on = ran_on.and_then(|observed| by_node(observed).remove(&id));
            let mover = Mover { workload: name, seen, ran_on };
            if self.move_within(view, &id, &mover, &firm, moves)? {
                // Beneficiaries of these earmarked GPUs get others.
                self.drop_earmarks(view, std::slice::from_ref(&id))?;
                self.move_within(view, &id, &mover, &firm, moves)?;
            }
        }
        Ok(())
    }

    /// Moves a booking within a node. Returns true if earmarked GPUs still block it.
    fn move_within(
        &mut self,
        view: &mut View,
        id: &NodeId,
        mover: &Mover<'_>,
        firm: &BTreeSet<u16>,
        moves: &mut Moves,
    ) -> Result<bool, Undecided> {
        let Some(mut node) = self.node(view, id)?.cloned() else { return Ok(false) };
        let changed = move_to(&mut node, mover, firm);
        let in_the_way = mover.is_blocked_on(&node);
        if changed.is_empty() {
            return Ok(in_the_way);
        }
        self.change_node(view, id, |there| *there = node)?;
        for other in &changed {
            self.follow_booking(view, other, [id.clone()])?;
        }
        moves.moved.insert(mover.workload.to_owned());
        Ok(in_the_way)
    }

    /// Returns the GPUs of a node whose user was observed on that GPU.
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

/// Returns the indexes of a node's whole GPUs that satisfy `which`.
fn indexes<'a>(node: &'a NodeUse, which: impl Fn(&GpuUse) -> bool + 'a) -> impl Iterator<Item = u16> + 'a {
    let all = (0_u16..).zip(&node.gpus);
    all.filter(move |(_, gpu)| gpu.profile.is_none() && which(gpu)).map(|(index, _)| index)
}

/// A workload on a node.
struct Mover<'a> {
    workload: &'a str,
    /// The GPUs on which it was observed.
    seen: &'a BTreeSet<u16>,
    /// The GPUs of earlier observations; empty if they did not name any.
    ran_on: Option<BTreeSet<u16>>,
}

impl Mover<'_> {
    /// Returns true if its memory contents may remain on a GPU.
    fn may_have_run_on(&self, index: u16) -> bool {
        let before = self.ran_on.as_ref();
        self.seen.contains(&index) || before.is_some_and(|on| on.is_empty() || on.contains(&index))
    }

    /// Returns the GPUs that it is booked on and was not observed on.
    fn given_up(&self, node: &NodeUse) -> Vec<u16> {
        indexes(node, |gpu| uses(gpu, self.workload)).filter(|index| !self.seen.contains(index)).collect()
    }

    /// Returns true if only earmarks keep it from the GPUs on which it was observed.
    fn is_blocked_on(&self, node: &NodeUse) -> bool {
        let mut aside = indexes(node, |gpu| !uses(gpu, self.workload) && is_set_aside(gpu));
        aside.any(|index| self.seen.contains(&index)) && !self.given_up(node).is_empty()
    }
}

fn is_set_aside(gpu: &GpuUse) -> bool {
    gpu.users.iter().any(|user| user.in_transit)
}

/// Exchanges a workload's booked GPUs for the observed ones. Users of GPUs in `firm` keep theirs. An earmark keeps its GPU if no other GPU is free on which the
/// workload did not run. Returns the workloads whose booking changed.
fn move_to(node: &mut NodeUse, mover: &Mover<'_>, firm: &BTreeSet<u16>) -> BTreeSet<String> {
    let wanted: Vec<u16> = indexes(node, |gpu| !uses(gpu, mover.workload))
        .filter(|index| mover.seen.contains(index) && !firm.contains(index))
        .collect();
    let mut given_up = mover.given_up(node);
    let mut changed = BTreeSet::new();
    for to in wanted {
        let there = node.gpus.get(usize::from(to));
        let (used, aside) = (there.is_some_and(|gpu| !gpu.users.is_empty()), there.is_some_and(is_set_aside));
        // A plan that is moved gets a usable GPU, and an earmark gets a clean one.
        let open = |index: u16| node.gpus.get(usize::from(index)).is_some_and(|gpu| gpu.barred.is_none());
        let fits = |index: u16| !used || (open(index) && !(aside && mover.may_have_run_on(index)));
        let (at, goes_to) = match given_up.iter().position(|index| fits(*index)) {
            Some(at) => (at, None),
            None if aside && !given_up.is_empty() => match free_for(node, mover) {
                Some(free) => (0, Some(free)),
                None => continue,
            },
            None => continue,
        };
        let from = given_up.remove(at);
        let ours = take_users(node, from);
        let theirs = take_users(node, to);
        changed.extend(theirs.iter().map(|user| user.workload.clone()));
        changed.insert(mover.workload.to_owned());
        for (index, users) in [(to, ours), (goes_to.unwrap_or(from), theirs)] {
            if let Some(gpu) = node.gpus.get_mut(usize::from(index)) {
                gpu.users = users;
            }
        }
    }
    changed
}

/// Returns a free GPU of the node on which a workload did not run.
fn free_for(node: &NodeUse, mover: &Mover<'_>) -> Option<u16> {
    let mut free = indexes(node, |gpu| gpu.users.is_empty() && gpu.barred.is_none());
    free.find(|index| !mover.may_have_run_on(*index))
}

fn take_users(node: &mut NodeUse, index: u16) -> Vec<GpuUser> {
    node.gpus.get_mut(usize::from(index)).map(|gpu| std::mem::take(&mut gpu.users)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tenancy::{GpuBars, OwnerEpoch};
    use store::Timestamp;

    const RUNS: bool = false;
    const ASIDE: bool = true;

    fn node(users: &[(&str, &[u16], bool)]) -> NodeUse {
        let free = GpuUse { profile: None, slices: 1, users: Vec::new(), barred: None };
        let mut gpus = vec![free; 8];
        for (workload, indexes, in_transit) in users {
            let (workload, workspace) = ((*workload).to_owned(), "one".parse().unwrap());
            let user = GpuUser { workload, workspace, slices: 1, in_transit: *in_transit };
            for index in *indexes {
                gpus[usize::from(*index)].users.push(user.clone());
            }
        }
        NodeUse {
            node: "n-0".parse().unwrap(),
            tenant: "acme".parse().unwrap(),
            epoch: OwnerEpoch(1),
            gpus,
            model: "H100".parse().unwrap(),
            serving: true,
            changed_at: Timestamp::default(),
            bars: GpuBars::default(),
        }
    }

    fn on(node: &NodeUse, workload: &str) -> BTreeSet<u16> {
        indexes(node, |gpu| uses(gpu, workload)).collect()
    }

    fn moves(node: &mut NodeUse, seen: &[u16], ran_on: Option<&[u16]>) -> bool {
        let seen = seen.iter().copied().collect();
        let ran_on = ran_on.map(|on| on.iter().copied().collect());
        let mover = Mover { workload: "a", seen: &seen, ran_on };
        move_to(node, &mover, &BTreeSet::new());
        mover.is_blocked_on(node)
    }

    #[test]
    fn an_earmark_gets_a_planned_gpu_and_not_an_uncleaned_one() {
        let mut there = node(&[("a", &[0, 1], RUNS), ("demand", &[3], ASIDE)]);
        assert!(!moves(&mut there, &[3, 4], Some(&[0])));
        assert_eq!((on(&there, "a"), on(&there, "demand")), ([3, 4].into(), [1].into()));

        let mut planned = node(&[("a", &[0], RUNS), ("demand", &[3], ASIDE)]);
        assert!(!moves(&mut planned, &[3], None));
        assert_eq!(on(&planned, "demand"), [0].into(), "it was never seen");
    }

    #[test]
    fn an_earmark_gets_a_free_gpu_if_all_others_are_uncleaned() {
        let mut there = node(&[("a", &[0], RUNS), ("demand", &[3], ASIDE)]);
        assert!(!moves(&mut there, &[3], Some(&[0, 1])));
        assert_eq!((on(&there, "a"), on(&there, "demand")), ([3].into(), [2].into()));

        // The observation did not name its GPUs.
        let mut unknown = node(&[("a", &[0], RUNS), ("demand", &[3], ASIDE)]);
        assert!(moves(&mut unknown, &[3], Some(&[])));
        assert_eq!((on(&unknown, "a"), on(&unknown, "demand")), ([0].into(), [3].into()));
    }

    #[test]
    fn an_earmark_blocks_a_move_if_no_clean_gpu_remains() {
        let mut there = node(&[("a", &[0], RUNS), ("b", &[1, 2, 4, 5, 6, 7], RUNS), ("demand", &[3], ASIDE)]);
        assert!(moves(&mut there, &[3], Some(&[0])));
        assert_eq!((on(&there, "a"), on(&there, "demand")), ([0].into(), [3].into()));
    }
}
