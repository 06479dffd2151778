//! GPUs that report errors: what the driver says of them, and the two things that can be done about it on the node.

use crate::platform::{
    CallMetadata, Diagnosis, DiagnosisLevel, GpuHealth, Ownership, Platform, at_cluster,
    call_metadata::look_again, codes,
};
use engine::{Action, ActionError, Call};
use serde::{Deserialize, Serialize};

/// Reads how the GPUs of a node are, without disturbing what runs on them.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct InspectGpus {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
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

/// Resets all GPUs of a node on which nothing runs.
///
/// Safe to run twice: what was reset is empty, and is reset again. While anybody has one open it is refused with `gpu.busy`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResetGpus {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
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

/// Reboots a node, and waits until it is back.
///
/// Safe to run twice: it names the boot that is to end, and a node that has started since is left alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RebootNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// The boot that is to end.
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

/// Tests a node's GPUs, and answers what was found, fit or not. Nothing may run on it.
///
/// Safe to run twice: it leaves nothing behind, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExamineNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
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

/// Lets new work onto a node again: lifts our cordon, and nobody else's.
///
/// Safe to run twice, and as the undo of [`CordonNode`](crate::platform::CordonNode): a node that is not cordoned, or is not this
/// tenant's at this epoch, is left as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct UncordonNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// Whose it is.
    pub tenant: String,
    /// The epoch of that ownership.
    pub owner_epoch: u64,
    /// In whose name it was cordoned; without one, in that of the step that this undoes.
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
