//! Cleaning a machine, one device at a time. What is begun and cannot be known to have ended is looked at, never begun again.

use crate::platform::{
    CallMetadata, Devices, DriveTechnique, Environment, FilledGpu, Platform, Reset, Samples, SanitiseLog,
    SanitiseStatus, Segment, at_cluster, call_metadata::look_again, codes,
};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};

/// Keeps new work from a node, in the name of its step: others may do so too, and the node is open once all have let go.
///
/// Safe to run twice: a node that is cordoned, or is not this tenant's at this epoch, is left as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CordonNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// Whose it is.
    pub tenant: String,
    /// The epoch of that ownership.
    pub owner_epoch: u64,
}

impl Action for CordonNode {
    const NAME: &'static str = "CordonNode";
    type Platform = Platform;
    /// In whose name: that of the step.
    type Output = String;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<String, ActionError> {
        let of = crate::platform::Ownership {
            tenant: Some(self.tenant.clone()),
            owner_epoch: self.owner_epoch,
            cordoned: false,
        };
        let stamp = CallMetadata::for_action(self, call);
        let now = on.kubernetes.cordon_node(&self.cluster, &self.node, &of, &stamp).await?;
        if now.owner_epoch > self.owner_epoch {
            let why = format!("{} is at owner epoch {}", self.node, now.owner_epoch);
            return Err(ActionError::permanent(codes::EPOCH_OLD, why));
        }
        Ok(stamp.step)
    }
}

/// Reads a machine's devices, from the machine.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadDevices {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// How many GPUs the ledger expects.
    pub gpus: u64,
}

/// The devices of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDevices {
    /// Which node.
    pub node: String,
    /// What it has.
    pub devices: Devices,
    /// Whether a simulator answered for it.
    #[serde(default)]
    pub simulated: bool,
}

impl Action for ReadDevices {
    const NAME: &'static str = "ReadDevices";
    type Platform = Platform;
    type Output = NodeDevices;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<NodeDevices, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let devices = on.machines.devices(&self.cluster, &self.node, self.gpus, &stamp).await?;
        let simulated = on.machines.is_simulated(&self.cluster, &self.node);
        Ok(NodeDevices { node: self.node.clone(), devices, simulated })
    }
}

/// Waits until no workload is left on a node.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AwaitDrained {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
}

impl Action for AwaitDrained {
    const NAME: &'static str = "AwaitDrained";
    type Platform = Platform;
    type Output = ();

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let devices =
            on.machines.devices(&self.cluster, &self.node, 0, &CallMetadata::for_action(self, call)).await?;
        if devices.workloads == 0 { Ok(()) } else { Err(look_again(codes::DRAINING)) }
    }
}

/// Moves a drained machine to the network on which it is scrubbed, and boots it into the environment that scrubs.
///
/// Safe to run twice: a machine that is there already stays. A machine with workloads is refused.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EnterScrub {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
}

impl Action for EnterScrub {
    const NAME: &'static str = "EnterScrub";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        on.machines
            .set_network(&self.cluster, &self.node, Segment::Scrub, &stamp.for_part("network"))
            .await?;
        on.machines.boot(&self.cluster, &self.node, Environment::Scrub, &stamp.for_part("boot")).await
    }
}

/// Fills a GPU's memory and reads it back.
///
/// Safe to run twice: filling again does no harm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScrubGpu {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// Which GPU.
    pub uuid: String,
    /// Whether it is reset afterwards.
    pub reset: bool,
}

impl Action for ScrubGpu {
    const NAME: &'static str = "ScrubGpu";
    type Platform = Platform;
    type Output = FilledGpu;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<FilledGpu, ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        on.machines.scrub_gpu(&self.cluster, &self.node, &self.uuid, self.reset, &stamp).await
    }
}

/// Has a drive's controller begin to erase the drive.
///
/// The drive knows no request key, so its log is read before every attempt: one that has begun more sanitisations than
/// `begun_before` has taken the command. One in progress is never sent another.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginSanitise {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// Which drive.
    pub serial: String,
    /// How; none when the drive has no technique that is strong enough, which fails.
    pub technique: Option<DriveTechnique>,
    /// How many sanitisations its log counted before this one.
    pub begun_before: u64,
}

impl Action for BeginSanitise {
    const NAME: &'static str = "BeginSanitise";
    type Platform = Platform;
    type Output = ();
    const REPEAT: Repeat = Repeat::AfterProbe;
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        let stamp = CallMetadata::for_action(self, call);
        let log = on.machines.sanitize_log(&self.cluster, &self.node, &self.serial, &stamp).await?;
        if self.taken(&log) {
            return Ok(());
        }
        let Some(technique) = self.technique else {
            let why = format!("drive {} has no technique that policy accepts", self.serial);
            return Err(ActionError::permanent(codes::DRIVE_UNSUITABLE, why));
        };
        on.machines.sanitise(&self.cluster, &self.node, &self.serial, technique, &stamp).await
    }

    async fn probe(&self, on: &Platform, call: &Call) -> Result<Probe<()>, ActionError> {
        let log = on
            .machines
            .sanitize_log(&self.cluster, &self.node, &self.serial, &CallMetadata::for_action(self, call))
            .await?;
        Ok(if self.taken(&log) { Probe::Done(()) } else { Probe::NotDone })
    }
}

impl BeginSanitise {
    fn taken(&self, log: &SanitiseLog) -> bool {
        log.begun > self.begun_before || log.status == SanitiseStatus::InProgress
    }
}

/// Reads how far a drive is.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadProgress {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// Which drive.
    pub serial: String,
}

/// How far a drive is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveStatus {
    /// Which drive.
    pub serial: String,
    /// What its log says.
    pub log: SanitiseLog,
}

impl Action for ReadProgress {
    const NAME: &'static str = "ReadProgress";
    type Platform = Platform;
    type Output = DriveStatus;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<DriveStatus, ActionError> {
        let log = on
            .machines
            .sanitize_log(&self.cluster, &self.node, &self.serial, &CallMetadata::for_action(self, call))
            .await?;
        Ok(DriveStatus { serial: self.serial.clone(), log })
    }
}

/// Reads pseudorandom sectors of a drive with the verifier's tool.
///
/// Safe to run twice: it changes nothing, and has nothing to undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SampleDrive {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
    /// Which drive.
    pub serial: String,
}

impl Action for SampleDrive {
    const NAME: &'static str = "SampleDrive";
    type Platform = Platform;
    type Output = Samples;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Samples, ActionError> {
        let (stamp, seed) = (CallMetadata::for_action(self, call), call.key());
        on.machines.sample_sectors(&self.cluster, &self.node, &self.serial, &seed, &stamp).await
    }
}

/// Overwrites memory at boot, and brings firmware and controllers back to a known state.
///
/// Safe to run twice: bringing them back again changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResetMachine {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
}

impl Action for ResetMachine {
    const NAME: &'static str = "ResetMachine";
    type Platform = Platform;
    type Output = Reset;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<Reset, ActionError> {
        on.machines.reset(&self.cluster, &self.node, &CallMetadata::for_action(self, call)).await
    }
}

/// Installs a node afresh. Only a machine without workloads can be.
///
/// Safe to run twice: a machine that is installed afresh stays so.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReimageNode {
    /// In which cluster.
    pub cluster: String,
    /// Which node.
    pub node: String,
}

impl Action for ReimageNode {
    const NAME: &'static str = "ReimageNode";
    type Platform = Platform;
    type Output = ();
    const RESULT: engine::ResultSource = engine::ResultSource::Deed;

    fn limited_by(&self) -> Vec<String> {
        at_cluster(&self.cluster)
    }

    async fn run(&self, on: &Platform, call: &Call) -> Result<(), ActionError> {
        on.machines
            .boot(&self.cluster, &self.node, Environment::Image, &CallMetadata::for_action(self, call))
            .await
    }
}
