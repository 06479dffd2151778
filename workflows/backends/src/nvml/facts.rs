//! Reads facts about this machine's GPUs from NVML. If the library or the driver is missing, returns the reason.
//!
//! Read-only. Values that a GPU does not support are absent, never guessed.

#[cfg(feature = "nvml")]
use nvml_wrapper::{Device, Nvml, error::NvmlError};
use serde::{Deserialize, Serialize};

/// Facts about this machine's GPUs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFacts {
    /// Version of the driver.
    pub driver_version: String,
    /// The GPUs, in the driver's order.
    pub gpus: Vec<GpuFact>,
}

/// Facts about one GPU.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GpuFact {
    /// The GPU's UUID, which is stable over reboots.
    pub uuid: String,
    /// The model.
    pub name: String,
    /// Framebuffer in MiB, equal to the total of `nvidia-smi -q -d MEMORY`.
    pub memory_mib: u64,
    /// True if ECC is on. Absent if the GPU has no ECC.
    pub ecc: Option<bool>,
    /// The MIG mode. Absent if the GPU has no MIG.
    pub mig: Option<Mig>,
    /// The number of compute processes on the GPU.
    pub compute_processes: u32,
}

/// The MIG mode of a GPU, now and after its next reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mig {
    /// True if MIG is on.
    pub current: bool,
    /// True if MIG will be on after the next reset.
    pub pending: bool,
}

/// GPU facts are not available on this machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("GPU facts are not available: {why}")]
pub struct NotAvailable {
    /// The reason, for an operator.
    pub why: String,
}

impl GpuFacts {
    /// Reads the facts from the driver.
    ///
    /// # Errors
    ///
    /// [`NotAvailable`] if NVML's library or the driver is missing, if the driver does not answer, or if this build
    /// lacks NVML.
    #[cfg(feature = "nvml")]
    pub fn read() -> Result<Self, NotAvailable> {
        let nvml = Nvml::init().map_err(|e| not_available(&e))?;
        Self::of(&nvml)
    }

    /// Always fails: this build has no NVML.
    ///
    /// # Errors
    ///
    /// Always.
    #[cfg(not(feature = "nvml"))]
    pub fn read() -> Result<Self, NotAvailable> {
        Err(NotAvailable { why: "this build is without NVML (feature `nvml`)".to_owned() })
    }

    /// Reads the facts from an open driver.
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

/// Returns `None` if the GPU or the driver does not support the query.
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

    /// Passes on machines with and without GPUs: the result has either facts or a reason.
    #[test]
    fn a_machine_without_gpus_is_reported_without_an_error() {
        match GpuFacts::read() {
            Ok(facts) => {
                assert!(facts.gpus.iter().all(|gpu| gpu.uuid.starts_with("GPU-") && gpu.memory_mib > 0))
            }
            Err(not) => assert!(not.to_string().starts_with("GPU facts are not available: "), "{not}"),
        }
    }

    #[cfg(feature = "nvml")]
    #[test]
    fn unsupported_gpu_features_are_absent_and_failed_reads_are_unknown() {
        assert_eq!(supported::<u8>(Err(NvmlError::NotSupported)).unwrap(), None);
        assert!(supported::<u8>(Err(NvmlError::GpuLost)).is_err());
        assert!(not_available(&NvmlError::DriverNotLoaded).why.contains("not loaded"));
    }
}
