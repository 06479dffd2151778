//! Recovers GPUs that report errors: inspects them, resets them, or reboots the node.

use crate::platform::{
    CallMetadata, Diagnosis, DiagnosisLevel, GpuHealth, Ownership, Platform, at_cluster,
    call_metadata::look_again, codes,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// Reads the state of a node's GPUs without disturbing running work.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InspectGpus {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
}

impl Action for InspectGpus {
    const NAME: &'static str = "InspectGpus";
    type Platform = Platform;
    type Output = GpuHealth;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<GpuHealth, ActionError> {
        on.gpus.health(&self.cluster, &self.node, &CallMetadata::for_action(self, call)).await
    }
}

/// Resets all GPUs of an idle node.
///
/// Safe to run twice: a second reset does no harm. Fails with `gpu.busy` while a process has a GPU open.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResetGpus {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
}

impl Action for ResetGpus {
    const NAME: &'static str = "ResetGpus";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        on.gpus.reset(&self.cluster, &self.node, &CallMetadata::for_action(self, call)).await
    }
}

/// Reboots a node and waits until it is back.
///
/// Safe to run twice: the call names the boot to end, and a node with a newer boot is left unchanged.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RebootNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The id of the boot to end.
    pub boot: String,
}

impl Action for RebootNode {
    const NAME: &'static str = "RebootNode";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        if on.gpus.health(&self.cluster, &self.node, &stamp).await?.boot != self.boot {
            return Ok(());
        }
        on.gpus.reboot(&self.cluster, &self.node, &self.boot, &stamp).await?;
        Err(look_again(codes::NODE_REBOOTING))
    }
}

/// Tests a node's GPUs and returns the findings, fit or not. The node must be idle.
///
/// Safe to run twice: it leaves nothing behind. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExamineNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
}

impl Action for ExamineNode {
    const NAME: &'static str = "ExamineNode";
    type Platform = Platform;
    type Output = Diagnosis;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Diagnosis, ActionError> {
        on.gpus
            .diagnose(&self.cluster, &self.node, DiagnosisLevel::Long, &CallMetadata::for_action(self, call))
            .await
    }
}

/// Makes a node schedulable again by removing this platform's cordon. Other cordons stay.
///
/// Safe to run twice, and as the undo of [`CordonNode`](crate::platform::CordonNode). A node is left unchanged if it is not cordoned, or if this
/// tenant does not own it at this epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UncordonNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The id of the tenant that owns the node.
    pub tenant: String,
    /// The epoch of that ownership.
    pub owner_epoch: u64,
    /// The holder of the cordon. `None` means the step that this action undoes.
    pub by: Option<String>,
}

impl Action for UncordonNode {
    const NAME: &'static str = "UncordonNode";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let of =
            Ownership { tenant: Some(self.tenant.clone()), owner_epoch: self.owner_epoch, cordoned: false };
        let stamp = CallMetadata::for_action(self, call);
        let by = self.by.as_deref().unwrap_or(&stamp.step);
        on.kubernetes.uncordon_node(&self.cluster, &self.node, &of, by, &stamp).await.map(drop)
    }
}
