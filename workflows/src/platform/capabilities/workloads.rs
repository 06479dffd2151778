//! Workloads on the GPUs of a cluster.

use crate::platform::{CallMetadata, ObservedGpus};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

/// The identity of a workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadRef {
    /// The cluster's name.
    pub cluster: String,
    /// The tenant's id.
    pub tenant: String,
    /// The workspace's name.
    pub workspace: String,
    /// The workload's name within the tenant.
    pub name: String,
}

impl WorkloadRef {
    /// Returns the name within the cluster.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.tenant, self.name)
    }
}

/// GPUs by node and index.
pub type GpuSet = BTreeMap<String, BTreeSet<u16>>;

/// A workload as its cluster reports it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningWorkload {
    /// Distinguishes the workload from earlier or later ones of the same name.
    pub uid: String,
    /// True if it may run.
    pub active: bool,
    /// True if a pod of it exists, even a terminating one.
    pub pods: bool,
    /// The GPUs on which it runs, as the cluster reports them. A node is named without indexes if the cluster does not know the GPUs there.
    pub gpus: ObservedGpus,
    /// The percentage of requests that it receives, if it serves requests.
    pub weight: Option<u8>,
    /// The announced time of its eviction, in milliseconds since 1970.
    pub reclaim_at: Option<u64>,
    /// True if it has saved its work since the notice.
    pub checkpointed: bool,
}

/// Observations of a scrub of GPU memory. They are no proof: no vendor certifies cleared memory. The default is an empty scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// The level that was applied.
    pub level: ScrubLevel,
    /// The driver, and its own report about clearing freed memory.
    pub driver: String,
    /// The number of bytes that were filled and read back.
    pub covered_bytes: u64,
    /// The size of the memory in bytes.
    pub total_bytes: u64,
    /// True if data other than zeros was found before the fill.
    pub leftovers: bool,
}

/// The minimum clearing of GPU memory between two users.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    strum::IntoStaticStr,
    strum::EnumString,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ScrubLevel {
    /// No clearing: the same workspace continues.
    #[default]
    None,
    /// The driver reports that it clears freed memory.
    Driver,
    /// Nearly all memory is filled and read back.
    Verified,
    /// As `Verified`, and the slices are destroyed and created again.
    Recreate,
    /// Like `Verified`, and the GPU is reset.
    Reset,
}

/// The operations on workloads and their GPUs that actions need.
///
/// Keys, epochs and error classes must behave as described at [`Kubernetes`](crate::platform::Kubernetes).
#[async_trait]
pub trait Workloads: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Returns the workload, if the cluster knows it.
    async fn observe(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError>;

    /// Returns the workload, after waiting a short time for it to stop. A backend that watches waits for a change; any other backend reads once.
    async fn wait_until_gone(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        self.observe(of, stamp).await
    }

    /// Starts the workload on these GPUs. A workload that runs there is left unchanged.
    async fn start(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Starts the workload on slices of these GPUs, with the given profiles by node. A backend whose scheduler chooses the placement starts it as
    /// usual.
    async fn start_on_slices(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        profiles: &BTreeMap<String, String>,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError> {
        let _ = profiles;
        self.start(of, gpus, service, stamp).await
    }

    /// Changes the notice to the owner or to the gateway. A missing workload is ignored.
    async fn set_notice(
        &self,
        of: &WorkloadRef,
        telling: &WorkloadNotice,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Requests a checkpoint. Returns `true` once the workload reports that it is complete.
    async fn checkpoint(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<bool, ActionError>;

    /// Sets the workload inactive, if it has this UID. Success means that the request was accepted.
    async fn evict(&self, of: &WorkloadRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Removes the workload's remains from a node that is fenced off.
    async fn force_remove(
        &self,
        of: &WorkloadRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Withdraws the notice from before the eviction. The workload stays inactive until it is admitted again and [`Workloads::start`] runs.
    async fn requeue(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Notifies the backend that a workload has ended. A real cluster knows this and does nothing. A simulated cluster, in which no workload ends by
    /// itself, removes it.
    async fn notify_ended(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        let _ = (of, stamp);
        Ok(())
    }

    /// Returns the clients that have these GPUs open: processes, pods or agents.
    async fn clients(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        stamp: &CallMetadata,
    ) -> Result<Vec<String>, ActionError>;

    /// Clears the memory of these GPUs to the given level and returns the observations.
    async fn scrub(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        stamp: &CallMetadata,
    ) -> Result<Scrubbed, ActionError>;
}

/// A notice about a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadNotice {
    /// To the owner: the workload is evicted at this time, in milliseconds since 1970.
    EndsAt(u64),
    /// To the owner: the workload continues. A later eviction needs a new checkpoint.
    GoesOn,
    /// To the gateway: the percentage of requests to send.
    Weight(u8),
}
