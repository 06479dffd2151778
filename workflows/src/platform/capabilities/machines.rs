//! Machines as hardware: their devices, their workloads, and the scrub environment.

use crate::platform::{CallMetadata, VerifiedAs};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// A machine's devices, as the machine reports them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// The environment that is booted.
    pub environment: Environment,
    /// The network that it is on.
    pub network: Segment,
    /// The number of workloads on it.
    pub workloads: u64,
    /// The machine's serial number.
    pub serial: String,
    /// Its GPUs.
    pub gpus: Vec<GpuDevice>,
    /// Its drives.
    pub drives: Vec<Drive>,
    /// The GUIDs of its network cards.
    pub nics: Vec<String>,
}

/// The environment that a machine is booted into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Environment {
    /// The tenant's environment.
    #[default]
    Tenant,
    /// A trusted and attested environment that runs from memory.
    Scrub,
    /// A fresh installation.
    Image,
}

/// The network that a machine is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Segment {
    /// The tenant's network.
    #[default]
    Tenant,
    /// A network that reaches only the scrub service.
    Scrub,
}

/// A GPU as it reports itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDevice {
    /// Its UUID.
    pub uuid: String,
    /// The driver's version.
    pub driver_version: String,
    /// True if the driver reports that it clears freed memory.
    pub scrub_on_free: bool,
    /// The size of its memory in bytes.
    pub memory_bytes: u64,
}

/// A drive as it reports itself: `id-ctrl` and the sanitize log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Drive {
    /// Serial number.
    pub serial: String,
    /// Model.
    pub model: String,
    /// Firmware version.
    pub firmware: String,
    /// Capacity in bytes.
    pub capacity_bytes: u64,
    /// The techniques that its controller supports.
    pub can: Vec<DriveTechnique>,
    /// The controller's estimate of the duration, in seconds. `None` if it gives no estimate.
    pub estimate_s: Option<u64>,
    /// The drive's sanitise log.
    pub log: SanitiseLog,
    /// The tool that sends the sanitise command. `None` if it is not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<DriveTool>,
}

/// A tool that erases a drive, a volume or a key, as it reports itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveTool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// A technique by which a drive's controller erases.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DriveTechnique {
    /// SANACT 2.
    BlockErase,
    /// SANACT 4. Sufficient only if all data was encrypted, so it is preferred only in combination with a block erase.
    CryptoErase,
    /// SANACT 3.
    Overwrite,
    /// `nvme format -s 1`, per namespace, for controllers without sanitize.
    Format,
}

/// The sanitize log (NVMe base specification, log page 81h) of a drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SanitiseLog {
    /// SSTAT bits 2:0, in words.
    pub status: SanitiseStatus,
    /// SPROG: the progress in 65,536ths.
    pub progress: u32,
    /// The number of sanitise operations that were started.
    pub begun: u64,
}

/// SSTAT, in words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SanitiseStatus {
    /// 0: never sanitised.
    #[default]
    Never,
    /// 2: in progress. The drive rejects a second command.
    InProgress,
    /// 1 or 4: completed.
    Completed,
    /// 3: failed.
    Failed,
}

/// Result of a scrub of a GPU's memory. See [`GpuScrub`](crate::destruction::GpuScrub) for the conclusions that it permits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilledGpu {
    /// The GPU's UUID, read during the scrub.
    pub uuid: String,
    /// All memory, in bytes.
    pub bytes_total: u64,
    /// Bytes that the fill wrote and read back.
    pub bytes_covered: u64,
    /// Samples that were not zero before the fill.
    pub leftovers: u64,
    /// Bytes that read back differently.
    pub mismatches: u64,
    /// True if the GPU was reset afterwards, with no process using it.
    pub reset: bool,
}

/// Result of sampling a drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// The drive's serial number, read by the verifier.
    pub serial: String,
    /// The seed of the sampling plan.
    pub seed: String,
    /// The number of sectors that were read.
    pub read: u64,
    /// The number of sectors that still show data.
    pub mismatches: u64,
    /// The number of sectors that could not be read.
    pub unreadable: u64,
    /// The tool that read the sectors. `None` if it is not reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<DriveTool>,
    /// The credentials that were used. `None` if the machine did not report them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_as: Option<VerifiedAs>,
}

/// Result of the reset of a machine's memory, firmware and controllers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// True if the request to overwrite memory at boot was honoured.
    pub memory_overwritten: bool,
    /// True if the users of the management controller, the TPM and the settings of network cards are in factory state.
    pub controllers_reset: bool,
    /// The compared measurements, such as a list with its digest.
    pub baseline: String,
    /// The difference from the reference measurements. `None` if they agree.
    pub differs: Option<String>,
}

/// The operations on machines that actions need.
///
/// An implementation never erases the drive that it runs from, and never restarts a sanitise operation in progress. It reports only values that it
/// read from the device. Epochs and error classes must behave as described at [`Kubernetes`](crate::platform::Kubernetes).
#[async_trait]
pub trait Machines: Debug + Send + Sync {
    /// Returns the name of the backend, for display.
    fn backend(&self) -> &'static str;

    /// Returns true if a simulator serves this machine.
    fn is_simulated(&self, cluster: &str, node: &str) -> bool;

    /// Returns the devices, read from the machine. `gpus` is the number that the ledger expects.
    async fn devices(
        &self,
        cluster: &str,
        node: &str,
        gpus: u64,
        stamp: &CallMetadata,
    ) -> Result<Devices, ActionError>;

    /// Moves the machine to another network.
    async fn set_network(
        &self,
        cluster: &str,
        node: &str,
        to: Segment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Boots the machine into an environment. Fails with `node.busy` while workloads run on it, and with `node.attestation_failed` if the attestation
    /// fails.
    async fn boot(
        &self,
        cluster: &str,
        node: &str,
        into: Environment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Fills nearly all memory of a GPU and reads it back. Then resets the GPU if requested.
    async fn scrub_gpu(
        &self,
        cluster: &str,
        node: &str,
        uuid: &str,
        reset: bool,
        stamp: &CallMetadata,
    ) -> Result<FilledGpu, ActionError>;

    /// Starts the sanitise operation of a drive's controller.
    async fn sanitise(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        technique: DriveTechnique,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Returns a drive's sanitize log.
    async fn sanitize_log(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        stamp: &CallMetadata,
    ) -> Result<SanitiseLog, ActionError>;

    /// Reads pseudorandom sectors of a drive, with the verifier's tool.
    async fn sample_sectors(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        seed: &str,
        stamp: &CallMetadata,
    ) -> Result<Samples, ActionError>;

    /// Overwrites memory, and resets firmware, management controller, TPM and network cards to a known state.
    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<Reset, ActionError>;
}
