//! Applies a cluster's observation of a tenant's nodes and running workloads to the account.
//!
//! If a workload is observed on other nodes than planned, the same commit moves its booking there, to the exact GPUs if the observation names them. Busy GPUs
//! of an unknown workload and missing GPUs are `astray`: no workload is admitted to them.

mod bookings;
mod relocate;
mod resting;
mod room;
mod seen_gpus;
mod slices;
#[cfg(test)]
mod tests;
mod uuids;

pub use relocate::move_to_observed;

use crate::{
    scheduling::admission::{AdmissionEffects, unit_of_work::AdmissionTx},
    tenancy::{GpuKind, LastObservation, NodeId, NodeUse, SeenWorkload, TenantId, Workload, WorkloadState},
};
use engine::{Undecided, View};
use relocate::Sighting;
use room::RoomFinding;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};
use store::Timestamp;

/// The observation of one kind on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservedKind {
    /// Allocatable GPUs or slices, in use or not.
    pub usable: u64,
    /// GPUs or slices in use.
    pub busy: u64,
}

/// The observation of a tenant's nodes. A node that is not named is not observed: no workload is admitted to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// The time of the observation.
    pub at: Timestamp,
    /// By node and kind.
    pub nodes: BTreeMap<NodeId, BTreeMap<GpuKind, ObservedKind>>,
}

/// A node whose observation differs from the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drift {
    /// The node.
    pub node: NodeId,
    /// The kind.
    pub kind: GpuKind,
    /// Free GPUs that take no workload until they are observed free.
    pub astray: u64,
}

/// The result of an observation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObservationResult {
    /// Differences from the ledger.
    pub drift: Vec<Drift>,
    /// Workloads whose booking moved to the observed nodes.
    #[serde(default)]
    pub moved: BTreeSet<String>,
    /// Workloads that started on nodes out of service or on barred GPUs, by node.
    #[serde(default)]
    pub resting: BTreeMap<NodeId, BTreeSet<String>>,
    /// Other effects of the commit.
    pub news: AdmissionEffects,
}

/// Applies an observation from a sender that does not list running workloads.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn observe(
    view: &mut View,
    tenant: &TenantId,
    seen: &Observation,
) -> Result<ObservationResult, Undecided> {
    observe_running(view, tenant, seen, &[])
}

/// Applies an observation. Moves the booking of a `running` workload to the observed nodes. Then blocks GPUs that are free in the ledger but busy or missing on
/// the platform, until they are observed free; GPUs used by workloads that are booked on other nodes and not observed there are not blocked. Bookings that
/// changed after the observation are left unchanged. An observation older than the last one is ignored.
///
/// # Errors
/// Undecided until the view has loaded every needed document.
pub fn observe_running(
    view: &mut View,
    tenant: &TenantId,
    seen: &Observation,
    running: &[SeenWorkload],
) -> Result<ObservationResult, Undecided> {
    let names: BTreeSet<String> = running.iter().map(|one| Workload::key(tenant, &one.workload)).collect();
    let mut desk = AdmissionTx::open(view, tenant, [view.prefetch::<Workload>(names)])?;
    if desk.occupancy.is_none() {
        return Ok(ObservationResult::default());
    }
    let at = seen.at.min(desk.now);
    if desk.seen_at.is_some_and(|before| at < before) {
        return Ok(ObservationResult::default());
    }
    let (sightings, strangers) = desk.sightings(view, at, running)?;
    let moves = desk.take_in(view, &sightings)?;
    let resting = desk.tell_resting(view, &sightings)?;
    let drift = desk.mark_astray(view, at, seen, (&strangers, &moves.changed_before))?;
    desk.follow_bars(view, running)?;
    view.put(&LastObservation { tenant: tenant.clone(), at })?;
    desk.seen_at = Some(at);
    desk.admit_waiting(view)?;
    Ok(ObservationResult { drift, moved: moves.moved, resting, news: desk.save(view)? })
}

/// GPUs in use by workloads that the ledger does not know, by kind and node.
type Strangers = BTreeMap<GpuKind, BTreeMap<NodeId, u64>>;

impl AdmissionTx {
    /// Returns the observed workloads that the ledger knows as running, and the GPUs of all others.
    fn sightings(
        &mut self,
        view: &mut View,
        at: Timestamp,
        running: &[SeenWorkload],
    ) -> Result<(BTreeMap<String, Sighting>, Strangers), Undecided> {
        let (mut sightings, mut strangers) = (BTreeMap::<String, Sighting>::new(), Strangers::new());
        for fact in running {
            let workload = self.workload(view, &fact.workload)?.cloned();
            // A workload that was admitted after the observation ran earlier under an admission that has ended.
            let known = workload.filter(|workload| {
                matches!(workload.state, WorkloadState::Admitted | WorkloadState::Reclaimed { .. })
                    && workload.admitted_at.is_some_and(|admitted| admitted <= at)
            });
            let Some(workload) = known else {
                self.count_stranger(&mut strangers, fact);
                continue;
            };
            let mut asked = workload.requests.keys().filter_map(|resource| resource.gpu());
            let kind = asked.find(|kind| fact.kind.as_ref().is_none_or(|said| said == *kind)).cloned();
            let Some(kind) = kind else {
                self.count_stranger(&mut strangers, fact);
                continue;
            };
            let sighting = sightings.entry(fact.workload.clone()).or_insert_with(|| Sighting::new(workload));
            sighting.placement.add(fact);
            let there = sighting.counts.entry(kind).or_default().entry(fact.node.clone()).or_default();
            *there = there.saturating_add(fact.amount());
        }
        for sighting in sightings.values_mut() {
            sighting.name_gpus();
        }
        Ok((sightings, strangers))
    }

    fn count_stranger(&self, strangers: &mut Strangers, fact: &SeenWorkload) {
        let kinds = self.occupancy.as_ref().and_then(|occupancy| occupancy.nodes.get(&fact.node));
        let whole = || kinds?.keys().find(|kind| kind.profile.is_none()).cloned();
        if let Some(kind) = fact.kind.clone().or_else(whole) {
            let there = strangers.entry(kind).or_default().entry(fact.node.clone()).or_default();
            *there = there.saturating_add(fact.amount());
        }
    }

    /// Records the blocked free GPUs. Returns the nodes on which their number increased.
    fn mark_astray(
        &mut self,
        view: &mut View,
        at: Timestamp,
        seen: &Observation,
        (strangers, changed_before): (&Strangers, &BTreeMap<NodeId, Timestamp>),
    ) -> Result<Vec<Drift>, Undecided> {
        let Some(occupancy) = self.occupancy.clone() else { return Ok(Vec::new()) };
        let mut rooms: BTreeMap<GpuKind, BTreeMap<NodeId, RoomFinding>> = BTreeMap::new();
        for (id, kinds) in &occupancy.nodes {
            for (kind, room) in kinds {
                let there = seen.nodes.get(id).and_then(|kinds| kinds.get(kind)).copied();
                let stranger = strangers.get(kind).and_then(|on| on.get(id)).copied().unwrap_or(0);
                let finding = RoomFinding::new(*room, there, stranger);
                rooms.entry(kind.clone()).or_default().insert(id.clone(), finding);
            }
        }
        for (kind, on) in &mut rooms {
            self.find_unseen_bookings(view, at, (kind, on), changed_before)?;
        }
        let mut changes = Vec::new();
        for (kind, on) in &rooms {
            let astray = room::astray(on);
            let before = |id: &NodeId| occupancy.nodes.get(id)?.get(kind).map(|room| room.astray);
            let differs = astray.into_iter().filter(|(id, astray)| before(id) != Some(*astray));
            changes.extend(differs.map(|(id, astray)| (id, kind.clone(), astray)));
        }
        changes.sort();
        view.prefetch::<NodeUse>(changes.iter().map(|(id, _, _)| id.to_string()))?;
        let mut drift = Vec::new();
        for (node, kind, astray) in changes {
            let changed_at = self.changed_at(view, &node, changed_before)?;
            let Some(occupancy) = self.occupancy.as_mut().map(Arc::make_mut) else { continue };
            let room = occupancy.nodes.get_mut(&node).and_then(|kinds| kinds.get_mut(&kind));
            let Some(room) = room.filter(|_| changed_at.is_some_and(|changed| changed <= at)) else {
                continue;
            };
            let more = astray > room.astray;
            room.astray = astray;
            self.occupancy_changed = true;
            if more {
                occupancy.drifts = occupancy.drifts.saturating_add(1);
                drift.push(Drift { node, kind, astray });
            }
        }
        Ok(drift)
    }

    /// Returns the last change of a node's usage before this observation moved bookings.
    fn changed_at(
        &mut self,
        view: &mut View,
        id: &NodeId,
        changed_before: &BTreeMap<NodeId, Timestamp>,
    ) -> Result<Option<Timestamp>, Undecided> {
        if let Some(before) = changed_before.get(id) {
            return Ok(Some(*before));
        }
        Ok(self.node(view, id)?.map(|node| node.changed_at))
    }

    /// Counts bookings on nodes that were not observed in use; these workloads may be the ones in use elsewhere. Loads nodes one by one only if GPUs of the
    /// kind are in use that are free in the ledger.
    fn find_unseen_bookings(
        &mut self,
        view: &mut View,
        at: Timestamp,
        (kind, on): (&GpuKind, &mut BTreeMap<NodeId, RoomFinding>),
        changed_before: &BTreeMap<NodeId, Timestamp>,
    ) -> Result<(), Undecided> {
        if on.values().all(|finding| !finding.is_strange()) {
            return Ok(());
        }
        let idle = on.iter().filter(|(_, finding)| finding.has_idle_bookings());
        let idle: Vec<NodeId> = idle.map(|(id, _)| id.clone()).collect();
        view.prefetch::<NodeUse>(idle.iter().map(ToString::to_string))?;
        for id in idle {
            // A booking made after the observation need not have been in use then.
            if self.changed_at(view, &id, changed_before)?.is_none_or(|changed| changed > at) {
                continue;
            }
            let Some(node) = self.node(view, &id)? else { continue };
            let gpus = node.gpus.iter().filter(|gpu| gpu.profile == kind.profile && gpu.barred.is_none());
            let users = gpus.flat_map(|gpu| &gpu.users).filter(|user| !user.in_transit);
            let booked: u64 = users.map(|user| u64::from(user.slices)).sum();
            if let Some(finding) = on.get_mut(&id) {
                finding.unseen_of(booked);
            }
        }
        Ok(())
    }
}
