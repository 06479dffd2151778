//! GPU facts of this machine, by NVML. Optional at run time: without library or driver it says so, and nothing fails.
//!
//! Only reads. What a GPU does not support is absent from its facts, never guessed.

#[cfg(feature = "nvml")]
use nvml_wrapper::{Device, Nvml, error::NvmlError};
use serde::{Deserialize, Serialize};

/// What the driver says of this machine's GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFacts {
    /// The driver's version.
    pub driver_version: String,
    /// In the driver's order.
    pub gpus: Vec<GpuFact>,
}

/// What the driver says of one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFact {
    /// Its identity, stable over reboots.
    pub uuid: String,
    /// Its model.
    pub name: String,
    /// Framebuffer in MiB, as `nvidia-smi -q -d MEMORY` counts the total.
    pub memory_mib: u64,
    /// Whether errors of its memory are corrected; absent where it cannot.
    pub ecc: Option<bool>,
    /// Whether it is partitioned; absent where it cannot be.
    pub mig: Option<Mig>,
    /// Processes that compute on it.
    pub compute_processes: u32,
}

/// Whether a GPU is partitioned, and will be after its next reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mig {
    /// As it is.
    pub current: bool,
    /// As it will be.
    pub pending: bool,
}

/// This machine has no GPU facts to give.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("GPU facts are not available: {why}")]
pub struct NotAvailable {
    /// In words for an operator.
    pub why: String,
}

impl GpuFacts {
    /// Asks the driver.
    ///
    /// # Errors
    /// [`NotAvailable`] without NVML's library, without a driver, when the driver does not answer, or in a build without NVML.
    #[cfg(feature = "nvml")]
    pub fn read() -> Result<Self, NotAvailable> {
        let nvml = Nvml::init().map_err(|e| not_available(&e))?;
        Self::of(&nvml)
    }

    /// There are none to be had by this build.
    ///
    /// # Errors
    /// Always.
    #[cfg(not(feature = "nvml"))]
    pub fn read() -> Result<Self, NotAvailable> {
        Err(NotAvailable { why: "this build is without NVML (feature `nvml`)".to_owned() })
    }

    /// Asks a driver that answers.
    #[cfg(feature = "nvml")]
    pub(super) fn of(nvml: &Nvml) -> Result<Self, NotAvailable> {
        let driver_version = nvml.sys_driver_version().map_err(|e| not_available(&e))?;
        let count = nvml.device_count().map_err(|e| not_available(&e))?;
        let gpus = (0..count).map(|index| nvml.device_by_index(index).and_then(|device| fact(&device)));
        let gpus = gpus.collect::<Result<_, _>>().map_err(|e| not_available(&e))?;
        Ok(Self { driver_version, gpus })
    }
}

#[cfg(feature = "nvml")]
fn fact(device: &Device<'_>) -> Result<GpuFact, NvmlError> {
    Ok(GpuFact {
        uuid: device.uuid()?,
        name: device.name()?,
        memory_mib: device.memory_info()?.total >> 20,
        ecc: supported(device.is_ecc_enabled())?.map(|ecc| ecc.currently_enabled),
        mig: supported(device.mig_mode())?
            .map(|mig| Mig { current: mig.current == 1, pending: mig.pending == 1 }),
        compute_processes: device.running_compute_processes_count()?,
    })
}

/// Absent when the GPU, or this driver, cannot.
#[cfg(feature = "nvml")]
pub(super) fn supported<T>(answer: Result<T, NvmlError>) -> Result<Option<T>, NvmlError> {
    match answer {
        Ok(value) => Ok(Some(value)),
        Err(NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(feature = "nvml")]
fn not_available(error: &NvmlError) -> NotAvailable {
    let why = match error {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            "libnvidia-ml.so.1 cannot be loaded; it comes with the NVIDIA driver".to_owned()
        }
        NvmlError::DriverNotLoaded => "the NVIDIA driver is not loaded".to_owned(),
        NvmlError::NoPermission => "this user may not ask the NVIDIA driver".to_owned(),
        NvmlError::LibRmVersionMismatch => {
            "library and kernel module of the NVIDIA driver differ in version; reboot after a driver update"
                .to_owned()
        }
        other => format!("the NVIDIA driver says: {other}"),
    };
    NotAvailable { why }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs on machines with and without GPUs: either there are facts, or there is a reason in words.
    #[test]
    fn a_machine_without_gpus_is_told_so_and_nothing_fails() {
        match GpuFacts::read() {
            Ok(facts) => {
                assert!(facts.gpus.iter().all(|gpu| gpu.uuid.starts_with("GPU-") && gpu.memory_mib > 0))
            }
            Err(not) => assert!(not.to_string().starts_with("GPU facts are not available: "), "{not}"),
        }
    }

    #[cfg(feature = "nvml")]
    #[test]
    fn what_a_gpu_cannot_do_is_absent_and_what_fails_is_not_guessed() {
        assert_eq!(supported::<u8>(Err(NvmlError::NotSupported)).unwrap(), None);
        assert!(supported::<u8>(Err(NvmlError::GpuLost)).is_err());
        assert!(not_available(&NvmlError::DriverNotLoaded).why.contains("not loaded"));
    }
}
