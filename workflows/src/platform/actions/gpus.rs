//! Actions on a node's GPUs: read and change their partitions, and diagnose them.

use crate::platform::{
    CallMetadata, Diagnosis, DiagnosisLevel, GpuLayout, LayoutState, Platform, at_cluster,
    call_metadata::look_again, codes,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// Reads how a node's GPUs are partitioned, so that a change can be undone.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadGpuLayout {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
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
        on.gpus.layout(&self.cluster, &self.node, &CallMetadata::for_action(self, call)).await
    }
}

/// Partitions a node's GPUs and waits until label, scheduler and driver agree.
///
/// Safe to run twice: if the node has the layout or is applying it, no request is sent. Its undo, [`RestoreGpuLayout`], takes the profile that
/// [`ReadGpuLayout`] read. It tolerates that this action never ran or is still being applied.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SetGpuLayout {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The MIG profile to apply.
    pub profile: String,
}

impl Action for SetGpuLayout {
    const NAME: &'static str = "SetGpuLayout";
    type Platform = Platform;
    type Output = GpuLayout;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<GpuLayout, ActionError> {
        reach(on, &self.cluster, &self.node, &self.profile, &CallMetadata::for_action(self, call)).await
    }
}

/// Restores the partitions that a node's GPUs had before.
///
/// Safe to run twice and as an undo: if the node has the layout, no request is sent. It does not matter if [`SetGpuLayout`] ever ran.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RestoreGpuLayout {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The MIG profile to restore.
    pub previous: String,
}

impl Action for RestoreGpuLayout {
    const NAME: &'static str = "RestoreGpuLayout";
    type Platform = Platform;
    type Output = GpuLayout;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<GpuLayout, ActionError> {
        reach(on, &self.cluster, &self.node, &self.previous, &CallMetadata::for_action(self, call)).await
    }
}

/// Requests the layout unless the node has it or is applying it, and returns the layout once it is complete.
async fn reach(
    on: &Platform,
    cluster: &str,
    node: &str,
    profile: &str,
    stamp: &CallMetadata,
) -> Result<GpuLayout, ActionError> {
    let mut layout = on.gpus.layout(cluster, node, stamp).await?;
    if layout.profile != profile {
        on.gpus.set_layout(cluster, node, profile, stamp).await?;
        layout = on.gpus.layout(cluster, node, stamp).await?;
    }
    let place = format!("node {node} of cluster {cluster}, profile {profile}");
    match layout.state {
        LayoutState::Failed => Err(ActionError::permanent(codes::LAYOUT_FAILED, place)),
        LayoutState::Pending | LayoutState::Rebooting if !layout.manager_active => {
            Err(ActionError::permanent(
                codes::LAYOUT_WEDGED,
                format!("{place}: pending, but no layout manager works on it"),
            ))
        }
        LayoutState::Pending | LayoutState::Rebooting => Err(look_again(codes::LAYOUT_PENDING)),
        LayoutState::Success if layout.allocatable != profile || layout.hardware != profile => {
            let why =
                format!("{place}: scheduler says {}, driver says {}", layout.allocatable, layout.hardware);
            Err(ActionError::transient(codes::LAYOUT_DISAGREES, why))
        }
        LayoutState::Success => Ok(layout),
    }
}

/// Tests a node's GPUs. Fails with `node.unfit` if they must not serve tenants.
///
/// Safe to run twice: it leaves nothing behind. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct DiagnoseNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The depth of the diagnosis.
    pub level: DiagnosisLevel,
}

impl Action for DiagnoseNode {
    const NAME: &'static str = "DiagnoseNode";
    type Platform = Platform;
    type Output = Diagnosis;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Diagnosis, ActionError> {
        let diagnosis = on
            .gpus
            .diagnose(&self.cluster, &self.node, self.level, &CallMetadata::for_action(self, call))
            .await?;
        if diagnosis.fit {
            return Ok(diagnosis);
        }
        let why = format!("node {} of cluster {}: {}", self.node, self.cluster, diagnosis.report);
        Err(ActionError::permanent(codes::NODE_UNFIT, why))
    }
}
