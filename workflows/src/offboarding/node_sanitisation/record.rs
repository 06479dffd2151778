//! The data of a node sanitisation, as it is persisted.

use crate::{
    destruction::{AssetId, NotClean},
    platform::{Devices, FilledGpu, QualifyFinding, Reset, Samples, SanitiseLog},
    policy::Method,
    signing::Moment,
    tenancy::{ClusterId, NodeId, OwnerEpoch, TenantId},
};
use engine::MadeRepair;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, time::Duration};
use store::ExecutionId;

/// The requirements of policy for a sanitisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SanitisationDemands {
    /// The minimum method for drives.
    pub drives: Method,
    /// The minimum method for GPU memory. Above `clear`, GPUs are reset as well.
    pub gpu_memory: Method,
    /// The number of automatic attempts on one medium.
    pub attempts: u32,
    /// The timeout for a medium that gives no estimate.
    pub within: Duration,
    /// The time that running work has to end.
    pub drain: Duration,
}

/// The request and the results so far. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSanitisation {
    /// The id of the tenant that owns the node.
    pub tenant: TenantId,
    /// The cluster's name.
    pub cluster: ClusterId,
    /// The node's name.
    pub node: NodeId,
    /// The epoch of the ownership that ends.
    pub owner_epoch: OwnerEpoch,
    /// The offboarding whose inventory lists the node's assets.
    pub run: ExecutionId,
    /// The number of GPUs in the ledger.
    pub gpus: u64,
    /// The requirements of policy.
    pub demands: SanitisationDemands,
    /// The start of cleaning. From then on no work of the tenant ran.
    pub begun_at: Option<Moment>,
    /// The devices, as read from the node.
    pub devices: Option<Devices>,
    /// The result of each GPU's scrub.
    pub scrubs: Vec<FilledGpu>,
    /// The progress of each drive, by serial number.
    pub drives: BTreeMap<String, DriveProgress>,
    /// The result of each drive's sampling.
    pub samples: Vec<Samples>,
    /// The result of the reset of memory, firmware and controllers.
    pub reset: Option<Reset>,
    /// True if it has been reinstalled.
    pub installed: bool,
    /// The result of the diagnosis.
    pub qualified: Option<QualifyFinding>,
    /// The verdict.
    pub verdict: Option<NodeVerdict>,
    /// The repairs made by operators.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<MadeRepair>,
}

/// The progress of a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveProgress {
    /// The last state of its log.
    pub log: SanitiseLog,
    /// The seconds since the log last changed.
    pub still_s: u64,
    /// The seconds since polling began.
    pub waited_s: u64,
}

/// The verdict of a sanitisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVerdict {
    /// Assets that do not pass, with the reason. Empty for a clean node.
    pub dirty: BTreeMap<AssetId, NotClean>,
    /// The number of its assets.
    pub assets: usize,
}
