//! The GPUs of nodes: their partitions and their health.

use crate::platform::CallMetadata;
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The partitions of a node's GPUs, as reported by each of the sources that must agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLayout {
    /// The profile in the node's label: `all-disabled`, `all-1g.10gb`.
    pub profile: String,
    /// The progress of the layout manager.
    pub state: LayoutState,
    /// The profile in the scheduler's allocatable resources.
    pub allocatable: String,
    /// The profile that the driver reports.
    pub hardware: String,
    /// True if a layout manager works on it. Without one, a pending layout never completes.
    pub manager_active: bool,
}

/// The progress of a layout manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutState {
    /// The layout is being applied.
    Pending,
    /// The layout is being applied, and needs a reboot.
    Rebooting,
    /// The layout is applied.
    Success,
    /// The layout manager failed.
    Failed,
}

/// The depth of a diagnosis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DiagnosisLevel {
    /// About two minutes: `dcgmi diag -r 2`.
    Medium,
    /// About fifteen minutes: `dcgmi diag -r 3`.
    Long,
}

/// The result of a diagnosis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// True if the node may serve tenants.
    pub fit: bool,
    /// The tests and their measurements, as evidence.
    pub report: String,
}

/// The operations on the GPUs of nodes that actions need.
///
/// Keys, epochs and error classes must behave as described at [`Kubernetes`](crate::platform::Kubernetes).
#[async_trait]
pub trait Gpus: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Returns the current layout.
    async fn layout(&self, cluster: &str, node: &str, stamp: &CallMetadata)
    -> Result<GpuLayout, ActionError>;

    /// Requests a layout. Success means that the request was accepted. The current layout changes nothing.
    async fn set_layout(
        &self,
        cluster: &str,
        node: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Tests the node's GPUs. Returns `Err` only if the test could not run.
    async fn diagnose(
        &self,
        cluster: &str,
        node: &str,
        level: DiagnosisLevel,
        stamp: &CallMetadata,
    ) -> Result<Diagnosis, ActionError>;

    /// Reads the driver's counters of the node's GPUs without disturbing any process.
    async fn health(&self, cluster: &str, node: &str, stamp: &CallMetadata)
    -> Result<GpuHealth, ActionError>;

    /// Resets the node's GPUs. Fails with `gpu.busy`, transient, while a process has one open.
    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Requests a reboot if the node still runs this boot. Success means that the request was accepted.
    async fn reboot(
        &self,
        cluster: &str,
        node: &str,
        boot: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;
}

/// The recovery that the driver requests, as NVML names it (`NVML_FI_DEV_GET_GPU_RECOVERY_ACTION`): the most severe of the node's GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Recovery {
    /// 0: no recovery.
    #[default]
    Nothing,
    /// 1: reset the GPU.
    Reset,
    /// 2: reboot the node.
    Reboot,
    /// 3: drain the GPUs that are linked to it.
    DrainPeers,
    /// 4: drain the GPU, then reset it.
    DrainAndReset,
}

/// The health of a node's GPUs, from the driver's counters. The read disturbs no process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuHealth {
    /// True if the driver reports no reason against running work.
    pub fit: bool,
    /// The recovery that the driver requests.
    pub recovery: Recovery,
    /// The id of the current boot. It changes with every boot.
    pub boot: String,
    /// The counters, as evidence.
    pub report: String,
}
