//! Moves the bookings of workloads to where they were seen: nodes, rooms and workloads together.

use super::{
    bookings::{Booking, Spread, settle},
    seen_gpus::GpusByNode,
};
use crate::{
    platform::ObservedGpus,
    scheduling::admission::{gpu_allocation::GpuChoice, unit_of_work::AdmissionTx},
    tenancy::{
        GpuKind, NodeId, NodeUse, ObservedPlacement, Resource, TenantId, Workload, WorkloadState,
        WorkspaceName,
    },
    workload_start::WorkloadStart,
};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// A workload that runs, as it was seen.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub(super) workload: Workload,
    pub(super) placement: ObservedPlacement,
    /// How much of each kind on each node.
    pub(super) counts: BTreeMap<GpuKind, Spread>,
    /// Which whole GPUs on each node, as far as they are known by their index.
    pub(super) gpus: GpusByNode,
}

impl Sighting {
    /// Returns true if as much is booked on each node as was seen there. Kinds on one node are not told apart.
    fn is_booked_so(&self) -> bool {
        let mut seen = Spread::new();
        for (node, amount) in self.counts.values().flatten() {
            *seen.entry(node.clone()).or_default() += amount;
        }
        let booked = self.workload.placed.iter().map(|part| {
            (part.node.clone(), part.gpus.values().map(|slices| u64::from(*slices)).sum::<u64>())
        });
        booked.eq(seen)
    }
}

/// What becomes of workloads that earlier facts saw on the nodes, and that are not among these sightings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlierSightings {
    /// Their bookings make way, as plans do: facts name everybody who runs on a node.
    MakeWay,
    /// Their bookings stay: only one workload was looked at.
    Stay,
}

/// What moved.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Workloads that were seen elsewhere than they were booked.
    pub(super) moved: BTreeSet<String>,
    /// When the use of each node that was touched had changed before.
    pub(super) changed_before: BTreeMap<NodeId, Timestamp>,
}

/// The booking of a workload follows it to where its cluster's backend saw it: to the nodes, and on them to the very GPUs. Tolerates a
/// workload that does not run, and a place that is not the tenant's: the booking of that part stays as it is.
///
/// # Errors
/// What the view lacks.
pub fn move_to_observed(
    view: &mut View,
    tenant: &TenantId,
    name: &str,
    observed: &ObservedGpus,
) -> Result<(), Undecided> {
    if observed.is_empty() {
        return Ok(());
    }
    let nodes: Vec<&str> = observed.iter().map(|(node, _)| node.as_str()).collect();
    let wants = [view.prefetch::<Workload>([Workload::key(tenant, name)]), view.prefetch::<NodeUse>(nodes)];
    let mut desk = AdmissionTx::open(view, tenant, wants)?;
    let Some(workload) = desk.workload(view, name)?.cloned() else { return Ok(()) };
    let (mut counts, mut seen) = (BTreeMap::<GpuKind, Spread>::new(), GpusByNode::new());
    for (node, gpus) in observed.iter() {
        // What was seen on a node that is not the tenant's stays booked where it is.
        let Ok(id) = node.parse::<NodeId>() else { continue };
        let Some(known) = desk.node(view, &id)? else { continue };
        seen.insert(id.clone(), gpus.clone());
        for gpu in gpus.iter().filter_map(|index| known.gpus.get(usize::from(*index))) {
            let kind = GpuKind { model: known.model.clone(), profile: gpu.profile.clone() };
            *counts.entry(kind).or_default().entry(id.clone()).or_default() += 1;
        }
    }
    let sighting = Sighting { placement: ObservedPlacement::default(), workload, counts, gpus: seen };
    let sightings = [(name.to_owned(), sighting)].into();
    if desk.relocate(view, &sightings, EarlierSightings::Stay)?.moved.is_empty() {
        return Ok(());
    }
    desk.save(view).map(drop)
}

impl AdmissionTx {
    /// Writes down where workloads were seen, and moves their bookings there.
    pub(super) fn take_in(
        &mut self,
        view: &mut View,
        sightings: &BTreeMap<String, Sighting>,
    ) -> Result<Moves, Undecided> {
        for sighting in sightings.values() {
            if sighting.workload.observed.as_ref() != Some(&sighting.placement) {
                let observed = Some(sighting.placement.clone());
                self.put_workload(Workload { observed, ..sighting.workload.clone() });
            }
        }
        self.relocate(view, sightings, EarlierSightings::MakeWay)
    }

    /// Moves bookings of whole GPUs; slices stay where they are booked, since what is free of a cut GPU depends on who shares it.
    fn relocate(
        &mut self,
        view: &mut View,
        sightings: &BTreeMap<String, Sighting>,
        earlier: EarlierSightings,
    ) -> Result<Moves, Undecided> {
        let mut moves = Moves::default();
        let movers: Vec<&Sighting> = sightings.values().filter(|sighting| !sighting.is_booked_so()).collect();
        let kinds = movers.iter().flat_map(|mover| mover.counts.keys()).filter(|kind| kind.profile.is_none());
        let kinds: BTreeSet<GpuKind> = kinds.cloned().collect();
        for kind in &kinds {
            let of_kind = || movers.iter().filter(|mover| mover.counts.contains_key(kind));
            let seen = of_kind().flat_map(|mover| mover.counts.get(kind)).flat_map(|on| on.keys().cloned());
            let booked =
                of_kind().flat_map(|mover| mover.workload.placed.iter().map(|part| part.node.clone()));
            let nodes: BTreeSet<NodeId> = seen.chain(booked).collect();
            self.relocate_kind(view, kind, (&nodes, sightings, earlier), &mut moves)?;
        }
        self.relocate_within_nodes(view, sightings, earlier, &mut moves)?;
        Ok(moves)
    }

    fn relocate_kind(
        &mut self,
        view: &mut View,
        kind: &GpuKind,
        (nodes, sightings, earlier): (&BTreeSet<NodeId>, &BTreeMap<String, Sighting>, EarlierSightings),
        moves: &mut Moves,
    ) -> Result<(), Undecided> {
        view.prefetch::<NodeUse>(nodes.iter().map(ToString::to_string))?;
        let (mut capacity, mut bookings) = (Spread::new(), BTreeMap::<String, Booking>::new());
        let mut users: BTreeMap<String, (WorkspaceName, bool)> = BTreeMap::new();
        for id in nodes {
            // A node that is not the tenant's has no room for it: what was seen there stays booked where it is.
            let Some(node) = self.node(view, id)?.filter(|node| node.model == kind.model).cloned() else {
                continue;
            };
            moves.changed_before.entry(id.clone()).or_insert(node.changed_at);
            for gpu in node.gpus.iter().filter(|gpu| gpu.profile.is_none()) {
                let open = u64::from(gpu.barred.is_none());
                *capacity.entry(id.clone()).or_default() += open;
                for user in &gpu.users {
                    let booking = bookings.entry(user.workload.clone()).or_default();
                    // Who has a barred GPU goes on there.
                    let leaves = sightings.get(&user.workload).is_some_and(|seen| !seen.is_booked_so());
                    booking.firm |= open == 0 && !leaves;
                    if open == 1 || leaves {
                        *booking.booked.entry(id.clone()).or_default() += u64::from(user.slices);
                    }
                    users.insert(user.workload.clone(), (user.workspace.clone(), user.in_transit));
                }
            }
        }
        view.prefetch::<Workload>(bookings.keys().map(|name| Workload::key(&self.tenant.id, name)))?;
        for (name, booking) in &mut bookings {
            let seen = sightings.get(name).and_then(|sighting| sighting.counts.get(kind)).cloned();
            let stays = match sightings.get(name) {
                Some(sighting) => sighting.is_booked_so(),
                None => earlier == EarlierSightings::Stay && self.was_seen_on(view, name, nodes)?,
            };
            booking.firm |= stays;
            booking.seen = seen.filter(|_| !stays);
        }
        let Some(changed) = settle(&capacity, &bookings) else { return Ok(()) };
        self.rebook(view, (kind, nodes), &users, &changed)?;
        moves.moved.extend(changed.into_keys().filter(|name| sightings.contains_key(name)));
        Ok(())
    }

    /// Returns true if earlier facts saw a workload on one of these nodes.
    fn was_seen_on(
        &mut self,
        view: &mut View,
        name: &str,
        nodes: &BTreeSet<NodeId>,
    ) -> Result<bool, Undecided> {
        let seen = self.workload(view, name)?.and_then(|workload| workload.observed.as_ref());
        Ok(seen.is_some_and(|seen| seen.nodes.keys().any(|node| nodes.contains(node))))
    }

    /// Gives the GPUs of these workloads back and takes others, as many.
    fn rebook(
        &mut self,
        view: &mut View,
        (kind, nodes): (&GpuKind, &BTreeSet<NodeId>),
        users: &BTreeMap<String, (WorkspaceName, bool)>,
        changed: &BTreeMap<String, Spread>,
    ) -> Result<(), Undecided> {
        for name in changed.keys() {
            let placed = self.placed(view, name, nodes.iter().cloned())?;
            self.release_gpus(view, name, Some(kind), &placed)?;
        }
        for (name, spread) in changed {
            let Some((workspace, in_transit)) = users.get(name) else { continue };
            let choice = GpuChoice::from([(kind.clone(), spread.clone())]);
            self.assign_gpus(view, name, workspace, &choice, *in_transit)?;
            if *in_transit {
                // It is let go on the nodes that its reclaim remembers.
                if let Some(reclaim) = self.cohort.reclaims.get_mut(&Resource::Gpu(kind.clone())) {
                    reclaim.nodes.extend(spread.keys().cloned());
                }
                continue;
            }
            self.follow_booking(view, name, spread.keys().cloned())?;
            self.tell_new_plan(view, name)?;
        }
        Ok(())
    }

    /// The cluster of a workload that was not seen to run is told where it is planned now: its start may have named other nodes, for
    /// which it would wait for ever.
    fn tell_new_plan(&mut self, view: &mut View, name: &str) -> Result<(), Undecided> {
        let workload = self.need_workload(view, name)?;
        if workload.state == WorkloadState::Admitted && workload.observed.is_none() {
            let start = WorkloadStart::new(self.tenant.id.clone(), name.to_owned(), workload.decision);
            self.effects.starts.push(WorkloadStart { moved_at: Some(self.now), ..start });
        }
        Ok(())
    }

    /// Writes down where a workload that runs is booked, after its booking changed on `nodes`.
    pub(super) fn follow_booking(
        &mut self,
        view: &mut View,
        name: &str,
        nodes: impl IntoIterator<Item = NodeId>,
    ) -> Result<(), Undecided> {
        let workload = self.need_workload(view, name)?;
        match workload.state {
            WorkloadState::Admitted | WorkloadState::Reclaimed { .. } => {
                let before = workload.placed.iter().map(|part| part.node.clone());
                let all: BTreeSet<NodeId> = before.chain(nodes).collect();
                let placed = self.placed(view, name, all)?;
                self.put_workload(Workload { placed, ..workload });
            }
            WorkloadState::Waiting | WorkloadState::Finished | WorkloadState::Rejected => {}
        }
        Ok(())
    }
}
