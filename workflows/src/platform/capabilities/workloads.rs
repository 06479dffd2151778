//! Workloads on the GPUs of a cluster.

use crate::platform::{CallMetadata, ObservedGpus};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Debug,
};

/// Which workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkloadRef {
    /// In which cluster.
    pub cluster: String,
    /// Of which tenant.
    pub tenant: String,
    /// Of which of its workspaces.
    pub workspace: String,
    /// Its name within the tenant.
    pub name: String,
}

impl WorkloadRef {
    /// Its name within the cluster.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.tenant, self.name)
    }
}

/// GPUs by node and index.
pub type GpuSet = BTreeMap<String, BTreeSet<u16>>;

/// A workload as its cluster knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningWorkload {
    /// Tells it from an earlier or later one of the same name.
    pub uid: String,
    /// Whether it may run.
    pub active: bool,
    /// Whether any of its pods is still there, on its way out or not.
    pub pods: bool,
    /// Where it runs, as the cluster says. A node is named without indexes if the cluster does not know which GPUs it uses there.
    pub gpus: ObservedGpus,
    /// The share of requests that it is sent, in percent, if it serves any.
    pub weight: Option<u8>,
    /// When its borrower was told that it ends, in milliseconds since 1970.
    pub reclaim_at: Option<u64>,
    /// Whether it has saved its work since it was told.
    pub checkpointed: bool,
}

/// What a scrub of GPU memory did and saw. It claims no more: no vendor gives a receipt for cleared memory. By default nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scrubbed {
    /// What was done.
    pub level: ScrubLevel,
    /// The driver, and whether it clears memory that is freed, as it says itself.
    pub driver: String,
    /// Bytes that were filled and read back.
    pub covered_bytes: u64,
    /// Bytes that there are.
    pub total_bytes: u64,
    /// Whether anything but zeros was found before filling.
    pub leftovers: bool,
}

/// The least that is done to GPU memory between two users.
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
    /// Nothing: the same workspace goes on.
    #[default]
    None,
    /// The driver's own clearing of freed memory is seen to be on.
    Driver,
    /// Nearly all memory is filled and read back.
    Verified,
    /// As verified, and the slices are destroyed and made again.
    Recreate,
    /// As verified, and the GPU is reset.
    Reset,
}

/// Workloads and the GPUs under them, as far as actions need them.
///
/// An implementor promises what [`Kubernetes`](crate::platform::Kubernetes) promises of keys, epochs and classes.
#[async_trait]
pub trait Workloads: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// The workload as it stands, if the cluster knows it.
    async fn observe(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError>;

    /// The workload once nothing of it runs any more, or as it stands after a moment: a backend that is told of changes waits for one, any
    /// other just observes.
    async fn wait_until_gone(
        &self,
        of: &WorkloadRef,
        stamp: &CallMetadata,
    ) -> Result<Option<RunningWorkload>, ActionError> {
        self.observe(of, stamp).await
    }

    /// Lets it run on these GPUs. One that runs there already is left as it is.
    async fn start(
        &self,
        of: &WorkloadRef,
        gpus: &GpuSet,
        service: bool,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Lets it run on slices of these GPUs, of these profiles by node. A backend whose scheduler places the work itself starts it
    /// as any other.
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

    /// Changes what its owner and the gateway are told. A workload that is gone is left alone.
    async fn set_notice(
        &self,
        of: &WorkloadRef,
        telling: &WorkloadNotice,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Asks it to save its work; `true` once it says that it has.
    async fn checkpoint(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<bool, ActionError>;

    /// Sets it inactive, if it is the one of this uid. Success means asked.
    async fn evict(&self, of: &WorkloadRef, uid: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Removes what is left of it from a node that is fenced off.
    async fn force_remove(
        &self,
        of: &WorkloadRef,
        uid: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Withdraws what its owner was told before it was evicted. It stays held: only [`Workloads::start`] lets it run again, after the
    /// books have admitted it.
    async fn requeue(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Hears that a workload is over. A real cluster knows it first and does nothing; a simulated one, in which nothing ends by
    /// itself, clears it away.
    async fn notify_ended(&self, of: &WorkloadRef, stamp: &CallMetadata) -> Result<(), ActionError> {
        let _ = (of, stamp);
        Ok(())
    }

    /// Who has these GPUs open: processes, pods, or agents.
    async fn clients(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        stamp: &CallMetadata,
    ) -> Result<Vec<String>, ActionError>;

    /// Clears the memory of these GPUs as far as `level` says, and reports.
    async fn scrub(
        &self,
        cluster: &str,
        node: &str,
        gpus: &BTreeSet<u16>,
        level: ScrubLevel,
        stamp: &CallMetadata,
    ) -> Result<Scrubbed, ActionError>;
}

/// What is told about a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadNotice {
    /// To its owner: it ends then, in milliseconds since 1970.
    EndsAt(u64),
    /// To its owner: it goes on, so what it has saved will not do when it is to end another time.
    GoesOn,
    /// To the gateway: this share of requests, in percent.
    Weight(u8),
}
