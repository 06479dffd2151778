//! Cleans a machine, one device at a time. If the outcome of a started operation is unknown, the device is observed and the operation is not started
//! again.

use crate::platform::{
    CallMetadata, Devices, DriveTechnique, Environment, FilledGpu, Platform, Reset, Samples, SanitiseLog,
    SanitiseStatus, Segment, at_cluster, call_metadata::look_again, codes,
};
use engine::{Action, ActionError, Call, Probe, Repeat};
use serde::{Deserialize, Serialize};

/// Cordons a node in the name of the step. Several steps may hold a cordon; the node is schedulable once all of them are removed.
///
/// Safe to run twice: a node is left unchanged if it is cordoned, or if this tenant does not own it at this epoch.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct CordonNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The id of the tenant that owns the node.
    pub tenant: String,
    /// The epoch of that ownership.
    pub owner_epoch: u64,
}

impl Action for CordonNode {
    const NAME: &'static str = "CordonNode";
    type Platform = Platform;
    /// The holder of the cordon: the name of the step.
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

/// Reads the devices of a machine from the machine itself.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadDevices {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The number of GPUs that the ledger expects.
    pub gpus: u64,
}

/// The devices of one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeDevices {
    /// The node's name.
    pub node: String,
    /// The devices of the node.
    pub devices: Devices,
    /// True if a simulator answered.
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

/// Waits until no workload is on a node.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AwaitDrained {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
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

/// Moves a drained machine to the scrub network and boots it into the scrub environment.
///
/// Safe to run twice: a machine that is already there stays. A machine with workloads is rejected.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct EnterScrub {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
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
/// Safe to run twice: a second fill does no harm.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ScrubGpu {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The GPU's UUID.
    pub uuid: String,
    /// If true, the GPU is reset afterwards.
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

/// Starts the sanitise operation of a drive's controller.
///
/// The drive knows no request key, so its log is read before every attempt. If the log counts more than `begun_before` sanitise operations, the drive
/// has accepted the command. No command is sent while an operation is in progress.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BeginSanitise {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The drive's serial number.
    pub serial: String,
    /// The technique. `None` if the drive has no sufficient technique, which is an error.
    pub technique: Option<DriveTechnique>,
    /// The number of sanitise operations in the drive's log before this one.
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

/// Reads the progress of a drive's sanitise operation.
///
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReadProgress {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The drive's serial number.
    pub serial: String,
}

/// The progress of a drive's sanitise operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveStatus {
    /// The drive's serial number.
    pub serial: String,
    /// The drive's sanitise log.
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
/// Safe to run twice: it changes nothing. It has no undo.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SampleDrive {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
    pub node: String,
    /// The drive's serial number.
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

/// Overwrites memory at boot, and resets firmware and controllers to a known state.
///
/// Safe to run twice: a second reset changes nothing.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ResetMachine {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
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

/// Reinstalls a node. A node with workloads is rejected.
///
/// Safe to run twice: a freshly installed node stays as it is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReimageNode {
    /// The cluster's name.
    pub cluster: String,
    /// The node's name.
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
