//! What an observation proves about GPUs. Each type has one source and no type converts into another.

use super::Uid;
use serde::{Deserialize, Serialize};

/// Kueue counts an amount for a workload. Does not prove that its pods run, nor that pods of a preempted workload have ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reserved {
    /// The UID of the Kueue workload.
    pub workload: Uid,
    /// The number of GPUs or slices of this resource, over all flavors.
    pub count: u64,
}

/// A pod is on a node and takes a number of its GPUs. Does not prove which ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bound {
    /// The UID of the pod.
    pub pod: Uid,
    /// The UID of the node object on which the pod was first seen; `None` if there was no such node.
    pub node: Option<Uid>,
    /// The number of GPUs or slices, of all kinds.
    pub count: u64,
}

/// A device of a node: a GPU or a MIG device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DeviceId {
    /// The UID of the node object.
    pub node: Uid,
    /// The UUID from the driver.
    pub uuid: Box<str>,
}

/// The kubelet, or a DRA claim, gave a device to a pod. Does not prove that a process has it open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Allocated {
    /// The UID of the pod.
    pub pod: Uid,
    /// The device.
    pub device: DeviceId,
}

/// A process has a device open. Does not prove that it may.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Open {
    /// The device.
    pub device: DeviceId,
    /// The process.
    pub pid: u32,
}

/// The health of a device, as its node reported it. Proves nothing after another boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Health {
    /// Usable.
    Healthy,
    /// Not usable.
    Unfit,
    /// The node does not know.
    Unknown,
}
