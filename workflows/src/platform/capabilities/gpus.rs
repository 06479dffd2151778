//! The GPUs of nodes: how they are partitioned, and whether they are fit.

use crate::platform::CallMetadata;
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// How a node's GPUs are partitioned, by each of the sources that must agree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuLayout {
    /// The profile asked for, by label: `all-disabled`, `all-1g.10gb`.
    pub profile: String,
    /// How far the layout manager is.
    pub state: LayoutState,
    /// The profile that the scheduler counts by.
    pub allocatable: String,
    /// The profile that the driver reports.
    pub hardware: String,
    /// Whether anybody works on it. Pending without a worker never ends.
    pub manager_active: bool,
}

/// How far a layout manager is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LayoutState {
    /// Being applied.
    Pending,
    /// Being applied, by way of a reboot.
    Rebooting,
    /// Applied.
    Success,
    /// Given up.
    Failed,
}

/// How deep a diagnosis goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DiagnosisLevel {
    /// About two minutes: `dcgmi diag -r 2`.
    Medium,
    /// About fifteen minutes: `dcgmi diag -r 3`.
    Long,
}

/// What a diagnosis found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// True when the node may serve tenants.
    pub fit: bool,
    /// What was tested and measured, as evidence.
    pub report: String,
}

/// The GPUs of nodes, as far as actions need them.
///
/// An implementor promises what [`Kubernetes`](crate::platform::Kubernetes) promises of keys, epochs and classes.
#[async_trait]
pub trait Gpus: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// The layout as it stands.
    async fn layout(&self, cluster: &str, node: &str, stamp: &CallMetadata)
    -> Result<GpuLayout, ActionError>;

    /// Asks for a layout. Success means asked; the layout that stands already changes nothing.
    async fn set_layout(
        &self,
        cluster: &str,
        node: &str,
        profile: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Tests the node's GPUs; `Err` only if the test itself could not be done.
    async fn diagnose(
        &self,
        cluster: &str,
        node: &str,
        level: DiagnosisLevel,
        stamp: &CallMetadata,
    ) -> Result<Diagnosis, ActionError>;

    /// What the driver has counted of the node's GPUs; disturbs nobody.
    async fn health(&self, cluster: &str, node: &str, stamp: &CallMetadata)
    -> Result<GpuHealth, ActionError>;

    /// Resets the node's GPUs; `gpu.busy`, transient, while anybody has one open.
    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<(), ActionError>;

    /// Asks the node to reboot if its boot is still this one. Success means asked.
    async fn reboot(
        &self,
        cluster: &str,
        node: &str,
        boot: &str,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;
}

/// What the driver asks for: NVML's GPU recovery action (`NVML_FI_DEV_GET_GPU_RECOVERY_ACTION`), the most of any of the node's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Recovery {
    /// 0: nothing.
    #[default]
    Nothing,
    /// 1: a reset of the GPU.
    Reset,
    /// 2: a reboot of the node.
    Reboot,
    /// 3: that GPUs linked to it are drained.
    DrainPeers,
    /// 4: that it is drained, then reset.
    DrainAndReset,
}

/// How the GPUs of a node are, by what their driver has counted. To look disturbs nobody.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuHealth {
    /// Whether nothing speaks against work on them.
    pub fit: bool,
    /// What the driver asks for.
    pub recovery: Recovery,
    /// Which start of the node this is: another one after each.
    pub boot: String,
    /// What was counted, as evidence.
    pub report: String,
}
