//! Slim forms of cluster objects: the fields that decide about GPUs, in about 300 bytes for each pod.

use super::{Reserved, Tracked, Uid};
use store::Timestamp;

/// Whether a node runs its pods, by its `Ready` condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// It is ready.
    Ready,
    /// It is not ready. This does not prove that its containers ended.
    NotReady,
    /// It is silent. This does not prove that its containers ended.
    Silent,
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeObject {
    /// The UID of the node object.
    pub uid: Uid,
    /// The resource version.
    pub version: u64,
    /// The name. Another node may have it later.
    pub name: Box<str>,
    /// The UUID of the machine; empty if unknown.
    pub system_uuid: Box<str>,
    /// The id of the present boot; empty if unknown.
    pub boot_id: Box<str>,
    /// The `Ready` condition.
    pub readiness: Readiness,
    /// True if the scheduler places no pods on it.
    pub cordoned: bool,
    /// The taints, as `key=value:effect`.
    pub taints: Box<[Box<str>]>,
    /// The version of the GPU driver; empty if unknown.
    pub driver: Box<str>,
    /// The layout of its GPUs, such as `all-1g.10gb`; empty if they are whole.
    pub layout: Box<str>,
    /// Allocatable GPUs and slices by resource name.
    pub allocatable: Box<[(Box<str>, u64)]>,
}

/// The phase of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodPhase {
    /// Not started.
    Pending,
    /// Running.
    Running,
    /// All containers ended with success.
    Succeeded,
    /// A container failed, or a controller gave the pod up.
    Failed,
    /// Not known.
    Unknown,
}

/// The containers of a pod, as the kubelet reports them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Containers {
    /// Not started.
    pub waiting: u16,
    /// Running.
    pub running: u16,
    /// Terminated.
    pub terminated: u16,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodObject {
    /// The UID.
    pub uid: Uid,
    /// The resource version.
    pub version: u64,
    /// The namespace.
    pub namespace: Box<str>,
    /// The name. Another pod may have it later.
    pub name: Box<str>,
    /// The UIDs of its owners.
    pub owners: Box<[Uid]>,
    /// The name of its node; `None` while it is not bound.
    pub node: Option<Box<str>>,
    /// The phase.
    pub phase: PodPhase,
    /// The time at which it is to be deleted.
    pub deletion: Option<Timestamp>,
    /// The containers.
    pub containers: Containers,
    /// True if the kubelet rejected it, so that no container started.
    pub rejected: bool,
    /// The sum of its GPU and slice requests.
    pub gpus: u32,
    /// The kind of slice it requests; `None` for whole GPUs.
    pub profile: Option<Box<str>>,
    /// The names of its resource claims.
    pub claims: Box<[Box<str>]>,
    /// The workload of Tenure, if an annotation names it.
    pub workload: Option<Box<str>>,
    /// The decision of Tenure, if an annotation names it.
    pub decision: Option<Box<str>>,
    /// The start, by the kubelet.
    pub started: Option<Timestamp>,
}

/// Whether the containers of a pod have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodEnd {
    /// No.
    Lives,
    /// The kubelet reported that all containers terminated or that none started.
    Proven,
    /// The phase says so, but the containers do not. A controller sets the phase of pods on lost nodes.
    Unproven,
}

impl PodObject {
    /// Returns whether its containers have ended.
    #[must_use]
    pub fn end(&self) -> PodEnd {
        let Containers { waiting, running, terminated } = self.containers;
        let all_ended = terminated > 0 && waiting == 0 && running == 0;
        match self.phase {
            PodPhase::Succeeded | PodPhase::Failed if all_ended || self.rejected => PodEnd::Proven,
            PodPhase::Succeeded | PodPhase::Failed => PodEnd::Unproven,
            // Containers that restart are not at an end, unless the pod is being deleted.
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => {
                if all_ended && self.deletion.is_some() { PodEnd::Proven } else { PodEnd::Lives }
            }
        }
    }
}

/// An amount that Kueue reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReservedAmount {
    /// The resource flavor.
    pub flavor: Box<str>,
    /// The resource name.
    pub resource: Box<str>,
    /// The amount.
    pub count: u64,
}

/// A Kueue workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadObject {
    /// The UID.
    pub uid: Uid,
    /// The resource version.
    pub version: u64,
    /// The namespace.
    pub namespace: Box<str>,
    /// The name.
    pub name: Box<str>,
    /// The UIDs of its owners.
    pub owners: Box<[Uid]>,
    /// The local queue.
    pub queue: Box<str>,
    /// False if it is deactivated.
    pub active: bool,
    /// True if `QuotaReserved` is true.
    pub quota_reserved: bool,
    /// True if `Admitted` is true.
    pub admitted: bool,
    /// True if `Evicted` is true.
    pub evicted: bool,
    /// True if `Finished` is true.
    pub finished: bool,
    /// The reserved amounts.
    pub amounts: Box<[ReservedAmount]>,
    /// The decision of Tenure, if an annotation names it.
    pub decision: Option<Box<str>>,
}

impl WorkloadObject {
    /// Returns what Kueue reserves of one resource; `None` if it reserves no quota.
    #[must_use]
    pub fn reserved(&self, resource: &str) -> Option<Reserved> {
        let amounts = self.amounts.iter().filter(|amount| *amount.resource == *resource);
        let count = amounts.map(|amount| amount.count).fold(0, u64::saturating_add);
        self.quota_reserved.then_some(Reserved { workload: self.uid, count })
    }
}

impl Tracked for NodeObject {
    fn uid(&self) -> Uid {
        self.uid
    }
    fn version(&self) -> u64 {
        self.version
    }
}

impl Tracked for PodObject {
    fn uid(&self) -> Uid {
        self.uid
    }
    fn version(&self) -> u64 {
        self.version
    }
}

impl Tracked for WorkloadObject {
    fn uid(&self) -> Uid {
        self.uid
    }
    fn version(&self) -> u64 {
        self.version
    }
}
