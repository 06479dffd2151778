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

/// What policy asks of a sanitisation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SanitisationDemands {
    /// The weakest method that will do for drives.
    pub drives: Method,
    /// The weakest method that will do for the memory of GPUs. Above `clear`, they are reset too.
    pub gpu_memory: Method,
    /// Automatic attempts on one medium.
    pub attempts: u32,
    /// How long one medium may take when it gives no estimate.
    pub within: Duration,
    /// How long running work has to end.
    pub drain: Duration,
}

/// The request, and what has been learnt while serving it. Persisted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeSanitisation {
    /// Whose data is on the node.
    pub tenant: TenantId,
    /// The cluster's name.
    pub cluster: ClusterId,
    /// The node's name.
    pub node: NodeId,
    /// The epoch of the ownership that ends.
    pub owner_epoch: OwnerEpoch,
    /// The offboarding whose inventory lists the node's assets.
    pub run: ExecutionId,
    /// How many GPUs the ledger says that it has.
    pub gpus: u64,
    /// What policy asks.
    pub demands: SanitisationDemands,
    /// When cleaning began: from then on no work of the tenant ran.
    pub begun_at: Option<Moment>,
    /// What the node has, read from it.
    pub devices: Option<Devices>,
    /// What scrubbing each GPU came to.
    pub scrubs: Vec<FilledGpu>,
    /// How far each drive is, by serial number.
    pub drives: BTreeMap<String, DriveProgress>,
    /// What sampling each drive came to.
    pub samples: Vec<Samples>,
    /// What resetting memory, firmware and controllers came to.
    pub reset: Option<Reset>,
    /// Whether it has been installed afresh.
    pub installed: bool,
    /// What the diagnosis found.
    pub qualified: Option<QualifyFinding>,
    /// What it came to.
    pub verdict: Option<NodeVerdict>,
    /// The repairs that people have made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repairs: Vec<MadeRepair>,
}

/// How far a drive is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveProgress {
    /// What its log said last.
    pub log: SanitiseLog,
    /// For how many seconds that has not changed.
    pub still_s: u64,
    /// For how many seconds it has been waited for.
    pub waited_s: u64,
}

/// What a sanitisation came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeVerdict {
    /// Assets that do not pass, each with the reason; empty when the node is clean.
    pub dirty: BTreeMap<AssetId, NotClean>,
    /// How many assets it has.
    pub assets: usize,
}
