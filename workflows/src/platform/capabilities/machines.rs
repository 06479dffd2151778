//! Machines as hardware: their devices, what is on them, and the environment in which they are scrubbed.

use crate::platform::{CallMetadata, VerifiedAs};
use async_trait::async_trait;
use engine::ActionError;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// A machine's devices, as it describes them itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Devices {
    /// What it is booted into.
    pub environment: Environment,
    /// The network that it is on.
    pub network: Segment,
    /// Workloads that run on it.
    pub workloads: u64,
    /// Its serial number.
    pub serial: String,
    /// Its GPUs.
    pub gpus: Vec<GpuDevice>,
    /// Its drives.
    pub drives: Vec<Drive>,
    /// Its network cards, by GUID.
    pub nics: Vec<String>,
}

/// What a machine is booted into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Environment {
    /// Its tenant's.
    #[default]
    Tenant,
    /// One in memory that is known to be good and was attested.
    Scrub,
    /// A fresh installation.
    Image,
}

/// The network that a machine is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Segment {
    /// Its tenant's.
    #[default]
    Tenant,
    /// One that reaches nothing but what scrubs it.
    Scrub,
}

/// A GPU as it describes itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuDevice {
    /// Its UUID.
    pub uuid: String,
    /// The driver's version.
    pub driver_version: String,
    /// Whether the driver says that it scrubs on free.
    pub scrub_on_free: bool,
    /// Its memory in bytes.
    pub memory_bytes: u64,
}

/// A drive as it describes itself: `id-ctrl` and the sanitize log.
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
    /// Which techniques its controller has.
    pub can: Vec<DriveTechnique>,
    /// How long the controller says that it takes, in seconds; none when it gives no estimate.
    pub estimate_s: Option<u64>,
    /// Where its sanitisation stands.
    pub log: SanitiseLog,
    /// With what its controller is told to erase; none when nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<DriveTool>,
}

/// What erases a drive, a volume or a key, as it names itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveTool {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// How a drive's controller erases.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, strum::IntoStaticStr,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum DriveTechnique {
    /// SANACT 2.
    BlockErase,
    /// SANACT 4: needs that all was encrypted, so it is first choice only together with a block erase.
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
    /// SPROG: 65,536ths that are done.
    pub progress: u32,
    /// How often a sanitisation has been begun.
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
    /// 2: in progress. A second command is refused by the drive.
    InProgress,
    /// 1 or 4: completed.
    Completed,
    /// 3: failed.
    Failed,
}

/// What a scrub of a GPU's memory came to: see [`GpuScrub`](crate::destruction::GpuScrub) for what may be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilledGpu {
    /// Its UUID, read during the scrub.
    pub uuid: String,
    /// All memory, in bytes.
    pub bytes_total: u64,
    /// Bytes that the fill wrote and read back.
    pub bytes_covered: u64,
    /// Samples that were not zero before the fill.
    pub leftovers: u64,
    /// Bytes that read back differently.
    pub mismatches: u64,
    /// Whether the GPU was reset afterwards, with no client on it.
    pub reset: bool,
}

/// What sampling a drive came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Samples {
    /// Its serial number, read by the verifier.
    pub serial: String,
    /// The seed of the sampling plan.
    pub seed: String,
    /// Sectors that were read.
    pub read: u64,
    /// Those that still show data.
    pub mismatches: u64,
    /// Those that could not be read.
    pub unreadable: u64,
    /// With what they were read; none when nobody said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<DriveTool>,
    /// With whose credentials; none where the machine did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_as: Option<VerifiedAs>,
}

/// What is brought back to a known state beside media.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// Whether the request to overwrite memory at boot was honoured.
    pub memory_overwritten: bool,
    /// Users of the management controller, the TPM and settings of network cards are as delivered.
    pub controllers_reset: bool,
    /// The measurements that were compared with those known to be good.
    pub baseline: String,
    /// What differs from them; none when they agree.
    pub differs: Option<String>,
}

/// Machines as hardware, as far as actions need them.
///
/// An implementor promises what [`Kubernetes`](crate::platform::Kubernetes) promises of epochs and classes, that nothing is done
/// to the drive it runs from, that a sanitisation in progress is never begun again, and that what is said of a device was
/// read from it.
#[async_trait]
pub trait Machines: Debug + Send + Sync {
    /// What serves this capability, for people.
    fn backend(&self) -> &'static str;

    /// Whether a simulator serves this machine.
    fn is_simulated(&self, cluster: &str, node: &str) -> bool;

    /// What the machine has, read from it. `gpus` is how many the ledger expects.
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

    /// Boots the machine into an environment. Refused with `node.busy` while workloads run on it, and with
    /// `node.attestation_failed` when it does not prove what it booted.
    async fn boot(
        &self,
        cluster: &str,
        node: &str,
        into: Environment,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// Fills nearly all memory of a GPU, reads it back and, if asked, resets the GPU.
    async fn scrub_gpu(
        &self,
        cluster: &str,
        node: &str,
        uuid: &str,
        reset: bool,
        stamp: &CallMetadata,
    ) -> Result<FilledGpu, ActionError>;

    /// Has a drive's controller begin to erase it.
    async fn sanitise(
        &self,
        cluster: &str,
        node: &str,
        serial: &str,
        technique: DriveTechnique,
        stamp: &CallMetadata,
    ) -> Result<(), ActionError>;

    /// A drive's sanitize log.
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

    /// Overwrites memory, and brings firmware, management controller, TPM and network cards back to a known state.
    async fn reset(&self, cluster: &str, node: &str, stamp: &CallMetadata) -> Result<Reset, ActionError>;
}
