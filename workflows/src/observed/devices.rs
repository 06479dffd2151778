//! What is known about the devices of one node, from its reports and from the ends of pods.
//!
//! Invariant: a holder leaves a device only by proof of its end. Reports without the holder are no proof while its object exists.

use super::{DeviceReport, Doubt, GpuState, Health, NodeReport, ReportRefusal, Uid};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};
use store::Timestamp;

/// What confirms that a GPU is unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The number of equal looks since the last holder ended.
    pub looks: u32,
    /// The least time between the first and the last of them.
    pub apart: Duration,
    /// How long the last report of a node counts.
    pub fresh: Duration,
}

/// Where the proof that a GPU is free must come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// From its node.
    Node,
    /// For nodes without reports also from objects of the API server. GPUs are then counted and not named.
    ApiServer,
}

/// How the end of a pod is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// By the kubelet.
    Proven,
    /// Only by the absence of its object.
    Unseen,
}

/// What is known about one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Device {
    pub(super) index: Option<u16>,
    pub(super) profile: Option<Box<str>>,
    /// Pods to which it is allocated and that have not ended.
    holders: BTreeSet<Uid>,
    shared: bool,
    /// Pods whose end was not seen.
    unseen: BTreeSet<Uid>,
    /// What the last report says, unless nothing is wrong.
    doubt: Option<Doubt>,
    unfit: bool,
    /// Times of the first and the last look that found it unused, and their number.
    clean: Option<(Timestamp, Timestamp, u32)>,
}

/// The devices of one node.
#[derive(Clone, Debug, Default)]
pub(super) struct NodeDevices {
    boot: Box<str>,
    former_boots: BTreeSet<Box<str>>,
    /// The instance and number of the last report.
    order: Option<(u64, u64)>,
    reported_at: Timestamp,
    /// Pods that have ended by proof and that a kubelet may still list.
    ended: BTreeSet<Uid>,
    devices: BTreeMap<Box<str>, Device>,
}

impl Device {
    /// Forgets the looks. The next ones count from now on.
    fn must_be_confirmed(&mut self) {
        self.clean = None;
    }

    fn look(&mut self, report: &NodeReport, seen: &DeviceReport, ended: impl Fn(Uid) -> bool) {
        self.unfit = seen.health == Health::Unfit;
        (self.index, self.profile) = (seen.index, seen.profile.clone());
        self.doubt = doubt(seen);
        self.shared = seen.shared;
        // Older kubelets still list pods that have ended.
        for pod in seen.holders.iter().flatten().filter(|pod| !ended(**pod)) {
            self.unseen.remove(pod);
            self.holders.insert(*pod);
        }
        // A pod whose object is gone has ended if the container runtime does not have it and no process has the device open.
        if let Some(runtime) = report.runtime.as_ref().filter(|_| self.doubt.is_none()) {
            self.unseen.retain(|pod| runtime.contains(pod));
        }
        let unused = self.holders.is_empty() && self.unseen.is_empty() && self.doubt.is_none();
        self.clean = (unused && !self.unfit).then(|| match self.clean {
            Some((first, _, looks)) => (first, report.at, looks.saturating_add(1)),
            None => (report.at, report.at, 1),
        });
    }

    fn is_confirmed(&self, proof: Proof) -> bool {
        self.clean
            .is_some_and(|(first, last, looks)| looks >= proof.looks && last.since(first) >= proof.apart)
    }

    /// Returns its state, if its node raises no doubt.
    fn state(&self, of_node: Option<Doubt>, proof: Proof) -> GpuState {
        let mut holders = self.holders.iter();
        let holder = match (holders.next(), holders.next()) {
            (Some(_), Some(_)) if !self.shared => return GpuState::Unconfirmed(Doubt::SeveralHolders),
            (holder, _) => holder,
        };
        if !self.unseen.is_empty() {
            return GpuState::Unconfirmed(Doubt::EndUnseen);
        }
        // A silent node does not end its pods.
        if let Some(holder) = holder {
            return GpuState::Held(*holder);
        }
        if let Some(doubt) = of_node {
            return GpuState::Unconfirmed(doubt);
        }
        if self.unfit {
            return GpuState::Unfit;
        }
        if let Some(doubt) = self.doubt {
            return GpuState::Unconfirmed(doubt);
        }
        if self.is_confirmed(proof) { GpuState::Free } else { GpuState::Unconfirmed(Doubt::Releasing) }
    }
}

/// Returns the doubt that a report raises about a device.
fn doubt(seen: &DeviceReport) -> Option<Doubt> {
    match (&seen.holders, &seen.open, seen.health) {
        (None, _, _) => Some(Doubt::HolderUnknown),
        (_, None, _) | (_, _, Health::Unknown) => Some(Doubt::NotLooked),
        (Some(_), Some(open), Health::Healthy | Health::Unfit) => (!open.is_empty()).then_some(Doubt::Open),
    }
}

impl NodeDevices {
    /// Applies a report. `exists` returns true for pods that have an object.
    pub(super) fn report(
        &mut self,
        report: &NodeReport,
        exists: impl Fn(Uid) -> bool,
    ) -> Result<(), ReportRefusal> {
        if self.former_boots.contains(&report.boot) {
            return Err(ReportRefusal::OtherBoot);
        }
        let order = (report.instance, report.seq);
        let booted = self.boot != report.boot;
        if !booted && self.order.is_some_and(|last| order <= last) {
            return Err(ReportRefusal::Older);
        }
        if booted {
            self.boot(&report.boot, &exists);
        }
        (self.order, self.reported_at) = (Some(order), report.at);
        let listed: BTreeSet<&str> = report.devices.iter().map(|device| &*device.uuid).collect();
        for (uuid, device) in &mut self.devices {
            // A device that is no longer listed is lost, also without an error in a log.
            if !listed.contains(&**uuid) {
                device.unfit = true;
                device.must_be_confirmed();
            }
        }
        for seen in &report.devices {
            let device = self.devices.entry(seen.uuid.clone()).or_default();
            device.look(report, seen, |pod| self.ended.contains(&pod));
        }
        let listed = report.devices.iter().filter_map(|device| device.holders.as_deref());
        let listed: BTreeSet<Uid> = listed.flatten().copied().collect();
        self.ended.retain(|pod| listed.contains(pod) || exists(*pod));
        // The report may be earlier than the object. Until it appears, the pod is one that has disappeared.
        let unknown: BTreeSet<Uid> = self.holders().map(|(pod, _)| pod).filter(|pod| !exists(*pod)).collect();
        for pod in unknown {
            self.end(pod, End::Unseen);
        }
        Ok(())
    }

    /// Returns true if a report of this boot is the first after another boot.
    pub(super) fn boots_as(&self, boot: &str) -> bool {
        !self.boot.is_empty() && *self.boot != *boot && !self.former_boots.contains(boot)
    }

    /// No process survives a boot. Pods whose objects exist are started again and keep their devices.
    fn boot(&mut self, boot: &str, exists: &impl Fn(Uid) -> bool) {
        let former = std::mem::replace(&mut self.boot, boot.into());
        if !former.is_empty() {
            self.former_boots.insert(former);
        }
        for device in self.devices.values_mut() {
            device.unseen.clear();
            device.holders.retain(|pod| exists(*pod));
            device.must_be_confirmed();
        }
    }

    /// Ends a pod. Looks count only from now on. Returns true if the pod had a device.
    pub(super) fn end(&mut self, pod: Uid, end: End) -> bool {
        let mut any = false;
        for device in self.devices.values_mut() {
            let had = device.holders.remove(&pod);
            any |= had || device.unseen.contains(&pod);
            let changed = match end {
                End::Proven => device.unseen.remove(&pod) || had,
                End::Unseen => had && device.unseen.insert(pod),
            };
            if changed {
                device.must_be_confirmed();
            }
        }
        if end == End::Proven {
            self.ended.insert(pod);
        }
        any
    }

    /// Ends all pods of the node whose end was not seen: an operator confirms that the machine was powered off or fenced.
    pub(super) fn fence(&mut self) {
        for device in self.devices.values_mut() {
            device.unseen.clear();
            device.must_be_confirmed();
        }
    }

    /// Returns true if a pod has or may have one of its devices.
    pub(super) fn knows(&self, pod: Uid) -> bool {
        self.devices.values().any(|device| device.holders.contains(&pod) || device.unseen.contains(&pod))
    }

    /// Returns true if no pod has or may have one of its devices.
    pub(super) fn is_settled(&self) -> bool {
        self.devices.values().all(|device| device.holders.is_empty() && device.unseen.is_empty())
    }

    /// Returns the doubt that its reports raise about all its devices.
    pub(super) fn doubt(&self, boot: Option<&str>, now: Timestamp, proof: Proof) -> Option<Doubt> {
        if boot.is_some_and(|boot| !boot.is_empty() && *boot != *self.boot) {
            Some(Doubt::OtherBoot)
        } else if !self.reported_at.is_recent(proof.fresh, now) {
            Some(Doubt::Silent)
        } else {
            None
        }
    }

    /// Returns the states of its devices by UUID.
    pub(super) fn states(
        &self,
        of_node: Option<Doubt>,
        proof: Proof,
    ) -> impl Iterator<Item = (&str, &Device, GpuState)> {
        self.devices.iter().map(move |(uuid, device)| (&**uuid, device, device.state(of_node, proof)))
    }

    /// Returns the pods to which devices are allocated, with their UUIDs.
    pub(super) fn holders(&self) -> impl Iterator<Item = (Uid, &str)> {
        self.devices.iter().flat_map(|(uuid, device)| device.holders.iter().map(move |pod| (*pod, &**uuid)))
    }

    /// Returns the profile of each device.
    pub(super) fn listed_profiles(&self) -> impl Iterator<Item = Option<&str>> {
        self.devices.values().map(|device| device.profile.as_deref())
    }

    /// Returns the only holder of each device that has one, with the UUID and index of the device.
    pub(super) fn sole_holders(&self) -> impl Iterator<Item = (Uid, &str, Option<u16>)> {
        self.devices.iter().filter_map(|(uuid, device)| {
            let mut holders = device.holders.iter();
            let (Some(pod), None) = (holders.next(), holders.next()) else { return None };
            Some((*pod, &**uuid, device.index))
        })
    }
}
