//! Moves the bookings of workloads to the observed nodes: nodes, room and workloads together.

use super::{
    bookings::{Booking, Spread, settle},
    seen_gpus::{self, GpusByNode},
    slices::{GpuPlace, by_gpu, on_observed},
};
use crate::{
    platform::ObservedGpus,
    scheduling::admission::{gpu_allocation::GpuChoice, unit_of_work::AdmissionTx},
    tenancy::{
        GpuKind, GpuUse, NodeId, NodeUse, ObservedPlacement, Resource, TenantId, Workload, WorkloadState,
        WorkspaceName,
    },
    workload_start::WorkloadStart,
};
use engine::{Undecided, View};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// The observation of a running workload.
#[derive(Clone, Debug)]
pub(super) struct Sighting {
    pub(super) workload: Workload,
    pub(super) placement: ObservedPlacement,
    /// The amount of each kind on each node.
    pub(super) counts: BTreeMap<GpuKind, Spread>,
    /// The whole GPUs on each node whose index is known.
    pub(super) gpus: GpusByNode,
    /// The amount on each GPU whose index is known: 1 for a whole GPU, the number of slices for a partitioned one.
    pub(super) by_gpu: Spread<GpuPlace>,
}

impl Sighting {
    /// Returns the sighting of a workload whose placement is still to be added.
    pub(super) fn new(workload: Workload) -> Self {
        Self {
            workload,
            placement: ObservedPlacement::default(),
            counts: BTreeMap::new(),
            gpus: GpusByNode::new(),
            by_gpu: Spread::new(),
        }
    }

    /// Adds the GPUs that the placement names.
    pub(super) fn name_gpus(&mut self) {
        self.gpus = seen_gpus::by_node(&self.placement);
        self.by_gpu = by_gpu(&self.placement);
    }

    /// Adds slices on GPUs of which only the indexes were observed.
    fn add_slices(&mut self, kind: &GpuKind, on: &ObservedSlices) {
        let total = self.workload.requests.get(&Resource::Gpu(kind.clone())).copied().unwrap_or(0);
        for (at, amount) in on_observed(total.saturating_sub(on.kept), &on.places, &on.booked) {
            let there = self.counts.entry(kind.clone()).or_default().entry(at.0.clone()).or_default();
            *there = there.saturating_add(amount);
            self.by_gpu.insert(at, amount);
        }
    }

    /// Returns true if the booked amount on each node equals the observed one. Does not distinguish the kinds on one node.
    pub(super) fn is_booked_so(&self) -> bool {
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

/// Handling of workloads that an earlier observation found on the nodes and this one did not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EarlierSightings {
    /// Their bookings can be moved like plans, because the observation names every workload that runs on a node.
    MakeWay,
    /// Their bookings stay, because only one workload was observed.
    Stay,
}

/// The bookings that moved.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Workloads observed on other nodes than booked.
    pub(super) moved: BTreeSet<String>,
    /// The last change before this move, for the usage of each affected node.
    pub(super) changed_before: BTreeMap<NodeId, Timestamp>,
}

/// The observed GPUs of one kind of slices.
#[derive(Default)]
struct ObservedSlices {
    /// The slices of each observed GPU.
    places: Spread<GpuPlace>,
    /// Those that are booked for the workload.
    booked: Spread<GpuPlace>,
    /// The number of slices booked for it on nodes where its GPUs are unknown. Their booking stays.
    kept: u64,
}

/// Moves the booking of a workload to the nodes and GPUs on which its cluster's backend observed it. Tolerates a workload that does not run, and a node that is
/// not the tenant's: that part of the booking stays unchanged.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
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
    let mut sighting = Sighting::new(workload);
    let mut slices: BTreeMap<GpuKind, ObservedSlices> = BTreeMap::new();
    let booked_on = |gpu: &GpuUse| -> u64 {
        gpu.users.iter().filter(|user| user.workload == name).map(|user| u64::from(user.slices)).sum()
    };
    for (node, gpus) in observed.iter() {
        // The part observed on another tenant's node keeps its booking.
        let Ok(id) = node.parse::<NodeId>() else { continue };
        let Some(known) = desk.node(view, &id)? else { continue };
        sighting.gpus.insert(id.clone(), gpus.clone());
        let kind_of = |gpu: &GpuUse| GpuKind { model: known.model.clone(), profile: gpu.profile.clone() };
        for gpu in known.gpus.iter().filter(|gpu| gpus.is_empty() && gpu.profile.is_some()) {
            slices.entry(kind_of(gpu)).or_default().kept += booked_on(gpu);
        }
        let there = gpus.iter().filter_map(|index| Some((index, known.gpus.get(usize::from(*index))?)));
        for (index, gpu) in there {
            let kind = kind_of(gpu);
            let at = (id.clone(), *index);
            if kind.profile.is_none() {
                *sighting.counts.entry(kind).or_default().entry(id.clone()).or_default() += 1;
                sighting.by_gpu.insert(at, 1);
                continue;
            }
            let of_kind = slices.entry(kind).or_default();
            of_kind.booked.insert(at.clone(), booked_on(gpu));
            of_kind.places.insert(at, u64::from(gpu.slices));
        }
    }
    slices.iter().for_each(|(kind, on)| sighting.add_slices(kind, on));
    let sightings = [(name.to_owned(), sighting)].into();
    if desk.relocate(view, &sightings, EarlierSightings::Stay)?.moved.is_empty() {
        return Ok(());
    }
    desk.save(view).map(drop)
}

impl AdmissionTx {
    /// Records the observed placements of workloads and moves their bookings.
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

    /// Moves bookings of whole GPUs and of slices.
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
        self.relocate_slices(view, sightings, earlier, &mut moves)?;
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
            // Another tenant's node has no room for the workload. The booking of that part stays.
            let Some(node) = self.node(view, id)?.filter(|node| node.model == kind.model).cloned() else {
                continue;
            };
            moves.changed_before.entry(id.clone()).or_insert(node.changed_at);
            for gpu in node.gpus.iter().filter(|gpu| gpu.profile.is_none()) {
                let open = u64::from(gpu.barred.is_none());
                *capacity.entry(id.clone()).or_default() += open;
                for user in &gpu.users {
                    let booking = bookings.entry(user.workload.clone()).or_default();
                    // A workload with a barred GPU keeps it.
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
        let Some(changed) = settle(&capacity, &bookings, |_, _, _| true) else { return Ok(()) };
        self.rebook(view, (kind, nodes), &users, &changed)?;
        moves.moved.extend(changed.into_keys().filter(|name| sightings.contains_key(name)));
        Ok(())
    }

    /// Returns true if an earlier observation found a workload on one of these nodes.
    pub(super) fn was_seen_on(
        &mut self,
        view: &mut View,
        name: &str,
        nodes: &BTreeSet<NodeId>,
    ) -> Result<bool, Undecided> {
        let seen = self.workload(view, name)?.and_then(|workload| workload.observed.as_ref());
        Ok(seen.is_some_and(|seen| seen.nodes.keys().any(|node| nodes.contains(node))))
    }

    /// Exchanges the GPUs of these workloads for an equal number of others.
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
                // The reclaim lists the nodes on which it is released.
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

    /// Sends the current plan to the cluster of a workload that was not observed running. Its start may have named other nodes, for which it would wait
    /// forever.
    pub(super) fn tell_new_plan(&mut self, view: &mut View, name: &str) -> Result<(), Undecided> {
        let workload = self.need_workload(view, name)?;
        if workload.state == WorkloadState::Admitted && workload.observed.is_none() {
            let start = WorkloadStart::new(self.tenant.id.clone(), name.to_owned(), workload.decision);
            self.effects.starts.push(WorkloadStart { moved_at: Some(self.now), ..start });
        }
        Ok(())
    }

    /// Records the booking of a running workload after it changed on `nodes`.
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
