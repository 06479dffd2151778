//! The report of a node about its GPUs.

use super::{Health, Uid};
use std::collections::BTreeSet;
use store::Timestamp;

/// A device in a report.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceReport {
    /// The UUID from the driver.
    pub uuid: Box<str>,
    /// The index at this boot, if known.
    pub index: Option<u16>,
    /// The profile of a slice; `None` for a whole GPU.
    pub profile: Option<Box<str>>,
    /// The pods that have it, as the kubelet reports them; `None` if the node could not say, or two looks differ.
    pub holders: Option<Box<[Uid]>>,
    /// True if several pods may have it: by time slicing, or as a GPU whose slices are not listed.
    pub shared: bool,
    /// The processes that have it open; `None` if the node could not look.
    pub open: Option<Box<[u32]>>,
    /// The health.
    pub health: Health,
}

/// A complete report of one node. A device that it lacks is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// The UID of the node object.
    pub node: Uid,
    /// The id of the boot.
    pub boot: Box<str>,
    /// The start of the agent: one more for each start, so that reports of an earlier start are older.
    pub instance: u64,
    /// The number within the instance.
    pub seq: u64,
    /// The time of receipt, by the store's clock.
    pub at: Timestamp,
    /// The pods that have containers in the container runtime, also pods that the API server no longer has; `None` if the agent does not look there.
    pub runtime: Option<BTreeSet<Uid>>,
    /// The devices.
    pub devices: Vec<DeviceReport>,
}

/// The reason why a report changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReportRefusal {
    /// A newer report was applied.
    #[error("a newer report of the node was applied")]
    Older,
    /// The node has booted since.
    #[error("the node has booted since this report")]
    OtherBoot,
}
