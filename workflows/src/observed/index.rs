//! The index of one source: its objects, and the devices of its nodes.
//!
//! Invariant: a pod stays bound to the node object on which it was first seen, so that a new node with an old name has none of the old node's pods.

use super::{
    Allocated, Batch, Bound, Delta, DeviceId, Doubt, Evidence, GpuState, NodeObject, NodeReport, PodEnd,
    PodObject, Proof, Readiness, Refusal, ReportRefusal, Table, Uid, WorkloadObject,
    devices::{End, NodeDevices},
};
use std::collections::{BTreeMap, BTreeSet};
use store::Timestamp;

/// The pods of one node object.
#[derive(Clone, Debug, Default)]
struct NodePods {
    bound: BTreeSet<Uid>,
    /// Pods that disappeared before their end was proven and before a report named their GPUs.
    unseen: BTreeMap<Uid, UnseenPod>,
}

/// A pod that disappeared, and may run on any of its node's GPUs.
#[derive(Clone, Copy, Debug)]
struct UnseenPod {
    gpus: u64,
    /// The number of reports since then in which the container runtime did not have it. The first one may be older than the pod.
    absent: u32,
}

/// The number of reports without a pod that prove that it has no containers.
const ABSENT: u32 = 2;

/// The GPUs of one node by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObservedRoom {
    /// All devices.
    pub all: u64,
    /// In use by a pod.
    pub held: u64,
    /// Free by proof, and not taken by a pod that is bound and has no devices yet.
    pub free: u64,
    /// Free by proof, but a bound pod will take them.
    pub taken: u64,
    /// Not usable.
    pub unfit: u64,
    /// Not known to be in use or not.
    pub unconfirmed: u64,
}

/// The index of one source.
#[derive(Clone, Debug, Default)]
pub struct ClusterIndex {
    nodes: Table<NodeObject>,
    pods: Table<PodObject>,
    workloads: Table<WorkloadObject>,
    /// The latest node object by name. A deleted node keeps its name here until another has it.
    names: BTreeMap<Box<str>, Uid>,
    /// The machine of each node name.
    machines: BTreeMap<Box<str>, Box<str>>,
    /// The node objects of each machine.
    of_machine: BTreeMap<Box<str>, BTreeSet<Uid>>,
    /// The node object of each bound pod.
    bindings: BTreeMap<Uid, Uid>,
    /// Pods that are bound to a node that was not seen yet, by its name.
    homeless: BTreeMap<Box<str>, BTreeSet<Uid>>,
    on_node: BTreeMap<Uid, NodePods>,
    devices: BTreeMap<Uid, NodeDevices>,
}

impl ClusterIndex {
    /// Returns the nodes.
    #[must_use]
    pub fn nodes(&self) -> &Table<NodeObject> {
        &self.nodes
    }

    /// Returns the pods.
    #[must_use]
    pub fn pods(&self) -> &Table<PodObject> {
        &self.pods
    }

    /// Returns the Kueue workloads.
    #[must_use]
    pub fn workloads(&self) -> &Table<WorkloadObject> {
        &self.workloads
    }

    /// Returns true if nodes and pods were listed completely. Without that, the index has no facts.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.nodes.is_synced() && self.pods.is_synced()
    }

    /// Applies a batch of nodes.
    ///
    /// # Errors
    /// The batch is refused and nothing changes.
    pub fn apply_nodes(&mut self, batch: Batch<NodeObject>) -> Result<Vec<Delta<NodeObject>>, Refusal> {
        let deltas = self.nodes.apply(batch)?;
        for delta in &deltas {
            match delta {
                Delta::Appeared(uid) => self.name_node(*uid),
                Delta::Changed { uid, before } => {
                    self.leave_machine(before);
                    self.join_machine(*uid);
                }
                Delta::Ended { last, .. } => {
                    self.leave_machine(last);
                    self.forget_node(last.uid);
                }
            }
        }
        Ok(deltas)
    }

    /// Applies a batch of pods. A pod whose end is proven releases its devices, and one that disappears without proof leaves them unconfirmed.
    ///
    /// # Errors
    /// The batch is refused and nothing changes.
    pub fn apply_pods(&mut self, batch: Batch<PodObject>) -> Result<Vec<Delta<PodObject>>, Refusal> {
        let deltas = self.pods.apply(batch)?;
        for delta in &deltas {
            match delta {
                Delta::Appeared(uid) | Delta::Changed { uid, .. } => self.follow_pod(*uid),
                Delta::Ended { last, .. } => self.end_pod(last),
            }
        }
        Ok(deltas)
    }

    /// Applies a batch of Kueue workloads.
    ///
    /// # Errors
    /// The batch is refused and nothing changes.
    pub fn apply_workloads(
        &mut self,
        batch: Batch<WorkloadObject>,
    ) -> Result<Vec<Delta<WorkloadObject>>, Refusal> {
        self.workloads.apply(batch)
    }

    /// Applies a report of a node.
    ///
    /// # Errors
    /// The report is refused and nothing changes.
    pub fn report(&mut self, report: &NodeReport) -> Result<(), ReportRefusal> {
        let pods = &self.pods;
        let devices = self.devices.entry(report.node).or_default();
        let booted = devices.boots_as(&report.boot);
        devices.report(report, |pod| pods.get(pod).is_some())?;
        if let Some(on) = self.on_node.get_mut(&report.node) {
            on.unseen.retain(|pod, unseen| {
                if let Some(runtime) = &report.runtime {
                    unseen.absent = if runtime.contains(pod) { 0 } else { unseen.absent.saturating_add(1) };
                }
                !booted && unseen.absent < ABSENT && !devices.knows(*pod)
            });
        }
        Ok(())
    }

    /// Records that an operator confirmed the power-off or isolation of a node's machine: pods that disappeared have ended. The GPUs become free only by
    /// further looks.
    pub fn confirm_fence(&mut self, node: Uid) {
        if let Some(devices) = self.devices.get_mut(&node) {
            devices.fence();
        }
        if let Some(on) = self.on_node.get_mut(&node) {
            on.unseen.clear();
        }
        self.forget_node(node);
    }

    /// Records that a node name now belongs to this machine: an operator or the import confirms it.
    pub fn map_machine(&mut self, name: &str, system_uuid: &str) {
        self.machines.insert(name.into(), system_uuid.into());
    }

    fn name_node(&mut self, uid: Uid) {
        let Some(node) = self.nodes.get(uid) else { return };
        let name = node.name.clone();
        if !node.system_uuid.is_empty() {
            self.machines.entry(name.clone()).or_insert_with(|| node.system_uuid.clone());
        }
        self.join_machine(uid);
        // Pods may arrive before their node.
        let homeless = self.homeless.remove(&name).unwrap_or_default();
        self.names.insert(name, uid);
        for pod in homeless {
            self.follow_pod(pod);
        }
    }

    fn join_machine(&mut self, uid: Uid) {
        let machine = self.nodes.get(uid).map(|node| &node.system_uuid);
        if let Some(machine) = machine.filter(|machine| !machine.is_empty()) {
            self.of_machine.entry(machine.clone()).or_default().insert(uid);
        }
    }

    fn leave_machine(&mut self, node: &NodeObject) {
        if let Some(nodes) = self.of_machine.get_mut(&node.system_uuid) {
            nodes.remove(&node.uid);
            if nodes.is_empty() {
                self.of_machine.remove(&node.system_uuid);
            }
        }
    }

    /// Forgets a node without an object, unless one of its pods has or may have GPUs.
    fn forget_node(&mut self, uid: Uid) {
        let no_pods = self.on_node.get(&uid).is_none_or(|on| on.bound.is_empty() && on.unseen.is_empty());
        let is_settled = self.devices.get(&uid).is_none_or(NodeDevices::is_settled);
        if no_pods && is_settled && self.nodes.get(uid).is_none() {
            self.on_node.remove(&uid);
            self.devices.remove(&uid);
        }
    }

    fn follow_pod(&mut self, uid: Uid) {
        let Some(pod) = self.pods.get(uid) else { return };
        let Some(name) = &pod.node else { return };
        let known = self.bindings.get(&uid).copied();
        let present = || self.names.get(name).copied().filter(|node| self.nodes.get(*node).is_some());
        let Some(node) = known.or_else(present) else {
            self.homeless.entry(name.clone()).or_default().insert(uid);
            return;
        };
        let ended = pod.end() == PodEnd::Proven;
        self.bindings.insert(uid, node);
        let on = self.on_node.entry(node).or_default();
        on.unseen.remove(&uid);
        if ended {
            on.bound.remove(&uid);
            self.end_on_node(node, uid, End::Proven);
        } else {
            on.bound.insert(uid);
        }
    }

    fn end_pod(&mut self, last: &PodObject) {
        let Some(node) = self.bindings.remove(&last.uid) else {
            if let Some(pods) = last.node.as_ref().and_then(|name| self.homeless.get_mut(name)) {
                pods.remove(&last.uid);
            }
            return;
        };
        let end = match last.end() {
            PodEnd::Proven => End::Proven,
            PodEnd::Lives | PodEnd::Unproven => End::Unseen,
        };
        let had_devices = self.end_on_node(node, last.uid, end);
        let on = self.on_node.entry(node).or_default();
        on.bound.remove(&last.uid);
        if end == End::Unseen && last.gpus > 0 && !had_devices {
            on.unseen.insert(last.uid, UnseenPod { gpus: last.gpus.into(), absent: 0 });
        }
        self.forget_node(node);
    }

    /// Ends a pod on the devices of its node. Returns true if it had any.
    fn end_on_node(&mut self, node: Uid, pod: Uid, end: End) -> bool {
        self.devices.get_mut(&node).is_some_and(|devices| devices.end(pod, end))
    }

    /// Returns the number of a node's GPUs that pods may have which disappeared before a report named their GPUs.
    pub(super) fn unattributed(&self, node: Uid) -> u64 {
        let unseen = self.on_node.get(&node).into_iter().flat_map(|on| on.unseen.values());
        unseen.map(|pod| pod.gpus).fold(0, u64::saturating_add)
    }

    /// Returns the node object that has this name now.
    #[must_use]
    pub fn node_named(&self, name: &str) -> Option<&NodeObject> {
        self.nodes.get(*self.names.get(name)?)
    }

    /// Returns the doubt that the node object raises about all its devices.
    fn doubt(&self, node: Uid) -> Option<Doubt> {
        let Some(object) = self.nodes.get(node) else { return Some(Doubt::NodeGone) };
        if self.names.get(&object.name) != Some(&node) {
            return Some(Doubt::NodeGone);
        }
        let machine = &object.system_uuid;
        if !machine.is_empty() && self.machines.get(&object.name).is_some_and(|known| known != machine) {
            return Some(Doubt::OtherMachine);
        }
        if object.readiness != Readiness::Ready {
            return Some(Doubt::NodeNotReady);
        }
        let others = self.of_machine.get(machine).into_iter().flatten().filter(|other| **other != node);
        let mut others = others.filter_map(|other| self.nodes.get(*other));
        let is_shared = others.any(|other| other.readiness == Readiness::Ready);
        is_shared.then_some(Doubt::SharedMachine)
    }

    fn doubt_of_devices(&self, node: Uid, now: Timestamp, proof: Proof) -> Option<Doubt> {
        let boot = self.nodes.get(node).map(|node| &*node.boot_id);
        let reported = || self.devices.get(&node)?.doubt(boot, now, proof);
        self.doubt(node).or_else(reported)
    }

    /// Returns the state of each device of a node by UUID.
    #[must_use]
    pub fn gpus(&self, node: Uid, now: Timestamp, proof: Proof) -> BTreeMap<&str, GpuState> {
        let of_node = self.doubt_of_devices(node, now, proof);
        let devices = self.devices.get(&node);
        let states = devices.into_iter().flat_map(|devices| devices.states(of_node, proof));
        states.map(|(uuid, _, state)| (uuid, state)).collect()
    }

    /// Returns the profile, index and state of each device of a node.
    pub(super) fn profiles(
        &self,
        node: Uid,
        now: Timestamp,
        proof: Proof,
    ) -> impl Iterator<Item = (Option<&str>, Option<u16>, GpuState)> {
        let of_node = self.doubt_of_devices(node, now, proof);
        let devices = self.devices.get(&node).into_iter();
        let states = devices.flat_map(move |devices| devices.states(of_node, proof));
        states.map(|(_, device, state)| (device.profile.as_deref(), device.index, state))
    }

    /// Returns the only holder of each device of a node that has one, with the UUID and index of the device.
    pub(super) fn sole_holders(&self, node: Uid) -> impl Iterator<Item = (Uid, &str, Option<u16>)> {
        self.devices.get(&node).into_iter().flat_map(NodeDevices::sole_holders)
    }

    /// Returns the profiles of the devices of a node.
    pub(super) fn listed_profiles(&self, node: Uid) -> BTreeSet<Option<&str>> {
        let devices = self.devices.get(&node);
        devices.into_iter().flat_map(NodeDevices::listed_profiles).collect()
    }

    /// Returns the devices that pods of a node have.
    #[must_use]
    pub fn allocated(&self, node: Uid) -> Vec<Allocated> {
        let holders = self.devices.get(&node).into_iter().flat_map(NodeDevices::holders);
        holders.map(|(pod, uuid)| Allocated { pod, device: DeviceId { node, uuid: uuid.into() } }).collect()
    }

    /// Returns the pods on a node that take GPUs and have not ended.
    #[must_use]
    pub fn bound(&self, node: Uid) -> Vec<Bound> {
        let pods = self.on_node.get(&node).into_iter().flat_map(|on| &on.bound);
        let bound = |pod: &PodObject| Bound { pod: pod.uid, node: Some(node), count: pod.gpus.into() };
        pods.filter_map(|pod| self.pods.get(*pod)).filter(|pod| pod.gpus > 0).map(bound).collect()
    }

    /// Returns the GPUs of a node by state. A node without reports has free GPUs only if `evidence` accepts objects of the API server.
    #[must_use]
    pub fn room(&self, node: Uid, now: Timestamp, (proof, evidence): (Proof, Evidence)) -> ObservedRoom {
        let mut room = ObservedRoom::default();
        let bound: u64 = self.bound(node).iter().map(|bound| bound.count).fold(0, u64::saturating_add);
        if !self.devices.contains_key(&node) {
            return self.counted_room(node, bound, evidence);
        }
        for state in self.gpus(node, now, proof).into_values() {
            room.all += 1;
            match state {
                GpuState::Held(_) => room.held += 1,
                GpuState::Free => room.free += 1,
                GpuState::Unfit => room.unfit += 1,
                GpuState::Unconfirmed(_) => room.unconfirmed += 1,
            }
        }
        room.taken = bound.saturating_sub(room.held).min(room.free);
        room.free -= room.taken;
        let unattributed = self.unattributed(node).min(room.free);
        room.free -= unattributed;
        room.unconfirmed += unattributed;
        room
    }

    /// Counts the GPUs of a node without reports.
    fn counted_room(&self, node: Uid, bound: u64, evidence: Evidence) -> ObservedRoom {
        let object = self.nodes.get(node);
        let allocatable = object.into_iter().flat_map(|node| &node.allocatable).map(|(_, count)| *count);
        let all = allocatable.fold(0, u64::saturating_add);
        let held = bound.min(all);
        let unseen = self.unattributed(node).min(all - held);
        let free = match evidence {
            Evidence::ApiServer if self.doubt(node).is_none() => all - held - unseen,
            Evidence::ApiServer | Evidence::Node => 0,
        };
        ObservedRoom { all, held, free, unconfirmed: all - held - free, ..ObservedRoom::default() }
    }
}
