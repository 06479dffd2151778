//! The GPU-shaped capability: how a node's GPUs are partitioned, and whether they are fit.

use crate::platform::Platform;
use crate::platform::{
    Stamp, actions::machines::recover::GpuHealth, at_cluster, call_metadata::look_again, codes,
};
use async_trait::async_trait;
use engine::{Action, ActionError, Call};
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
pub enum Level {
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
    async fn layout(&self, cluster: &str, node: &str, stamp: &Stamp) -> Result<GpuLayout, ActionError>;

    /// Asks for a layout. Success means asked; the layout that stands already changes nothing.
    async fn set_layout(
        &self,
        cluster: &str,
        node: &str,
        profile: &str,
        stamp: &Stamp,
    ) -> Result<(), ActionError>;

    /// Tests the node's GPUs; `Err` only if the test itself could not be done.
    async fn diagnose(
        &self,
        cluster: &str,
        node: &str,
        level: Level,
        stamp: &Stamp,
    ) -> Result<Diagnosis, ActionError>;

    /// What the driver has counted of the node's GPUs; disturbs nobody.
    async fn health(&self, cluster: &str, node: &str, stamp: &Stamp) -> Result<GpuHealth, ActionError>;

    /// Resets the node's GPUs; `gpu.busy`, transient, while anybody has one open.
    async fn reset(&self, cluster: &str, node: &str, stamp: &Stamp) -> Result<(), ActionError>;

    /// Asks the node to reboot if its boot is still this one. Success means asked.
    async fn reboot(&self, cluster: &str, node: &str, boot: &str, stamp: &Stamp) -> Result<(), ActionError>;
}

/// Reads how a node's GPUs are partitioned, so that a change can be undone.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadGpuLayout {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
}

impl Action for ReadGpuLayout {
    const NAME: &'static str = "ReadGpuLayout";
    type Platform = Platform;
    type Output = GpuLayout;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<GpuLayout, ActionError> {
        on.gpus.layout(&self.cluster, &self.node, &Stamp::of(self, call)).await
    }
}

/// Partitions a node's GPUs and waits until label, scheduler and driver agree.
///
/// Safe to run twice: a layout that stands or is being applied is not asked for again. Its undo,
/// [`RestoreGpuLayout`], takes the profile that [`ReadGpuLayout`] saw before, and tolerates that this never ran or is
/// still being applied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetGpuLayout {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// The profile to have.
    pub profile: String,
}

impl Action for SetGpuLayout {
    const NAME: &'static str = "SetGpuLayout";
    type Platform = Platform;
    type Output = GpuLayout;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<GpuLayout, ActionError> {
        reach(on, &self.cluster, &self.node, &self.profile, &Stamp::of(self, call)).await
    }
}

/// Partitions a node's GPUs as they were before.
///
/// Safe to run twice, and as an undo: a layout that stands is not asked for again, whether or not the action it
/// undoes ever ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreGpuLayout {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// The profile that was there before.
    pub previous: String,
}

impl Action for RestoreGpuLayout {
    const NAME: &'static str = "RestoreGpuLayout";
    type Platform = Platform;
    type Output = GpuLayout;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<GpuLayout, ActionError> {
        reach(on, &self.cluster, &self.node, &self.previous, &Stamp::of(self, call)).await
    }
}

/// Asks for the layout unless it is asked for already, and judges how far it is.
async fn reach(
    on: &Platform,
    cluster: &str,
    node: &str,
    profile: &str,
    stamp: &Stamp,
) -> Result<GpuLayout, ActionError> {
    let mut layout = on.gpus.layout(cluster, node, stamp).await?;
    if layout.profile != profile {
        on.gpus.set_layout(cluster, node, profile, stamp).await?;
        layout = on.gpus.layout(cluster, node, stamp).await?;
    }
    let place = format!("node {node} of cluster {cluster}, profile {profile}");
    match layout.state {
        LayoutState::Failed => Err(ActionError::permanent(codes::LAYOUT_FAILED, place)),
        LayoutState::Pending | LayoutState::Rebooting if !layout.manager_active => Err(
            ActionError::permanent(codes::LAYOUT_WEDGED, format!("{place}: pending, and nobody works on it")),
        ),
        LayoutState::Pending | LayoutState::Rebooting => Err(look_again(codes::LAYOUT_PENDING)),
        LayoutState::Success if layout.allocatable != profile || layout.hardware != profile => {
            let why =
                format!("{place}: scheduler says {}, driver says {}", layout.allocatable, layout.hardware);
            Err(ActionError::transient(codes::LAYOUT_DISAGREES, why))
        }
        LayoutState::Success => Ok(layout),
    }
}

/// Tests a node's GPUs; fails with `node.unfit` when they may not serve tenants.
///
/// Safe to run twice: it leaves nothing behind. It has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiagnoseNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// How deep.
    pub level: Level,
}

impl Action for DiagnoseNode {
    const NAME: &'static str = "DiagnoseNode";
    type Platform = Platform;
    type Output = Diagnosis;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Diagnosis, ActionError> {
        let diagnosis =
            on.gpus.diagnose(&self.cluster, &self.node, self.level, &Stamp::of(self, call)).await?;
        if diagnosis.fit {
            return Ok(diagnosis);
        }
        let why = format!("node {} of cluster {}: {}", self.node, self.cluster, diagnosis.report);
        Err(ActionError::permanent(codes::NODE_UNFIT, why))
    }
}
