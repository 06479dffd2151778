//! Errors of NVML and CUDA, and the action errors that they become.

use engine::ActionError;
use nvml_wrapper::error::NvmlError;
use workflows::platform::codes;

/// `NVML_ERROR_INSUFFICIENT_RESOURCES`, for which the wrapper has no variant.
const INSUFFICIENT_RESOURCES: u32 = 23;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {why}")]
pub struct Fault {
    /// The failed call.
    pub call: String,
    /// The kind of failure.
    pub kind: Kind,
    /// The driver's answer as text.
    pub why: String,
}

/// The kind of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The library or the driver is missing, or their versions do not match.
    NotThere,
    /// The GPU or the driver does not support the call.
    NotSupported,
    /// A process has the GPU or the instance open.
    InUse,
    /// The GPU has not enough free resources.
    NoRoom,
    /// The user lacks a permission.
    NoPermission,
    /// The GPU has fallen off the bus.
    Lost,
    /// The change takes effect only after a reset of the GPU.
    ResetRequired,
    /// The observed state differs from the requested one.
    Disagrees,
    /// The caller cancelled the work.
    Stopped,
    /// Any other failure.
    Failed,
}

impl Fault {
    /// Creates a fault found by our own checks.
    pub(super) fn new(call: &str, kind: Kind, why: impl ToString) -> Self {
        Self { call: call.to_owned(), kind, why: why.to_string() }
    }

    /// Converts NVML's answer to `call`.
    pub(super) fn of(call: &str, error: &NvmlError) -> Self {
        let kind = match error {
            NvmlError::LibloadingError(_)
            | NvmlError::LibraryNotFound
            | NvmlError::DriverNotLoaded
            | NvmlError::LibRmVersionMismatch
            | NvmlError::Uninitialized => Kind::NotThere,
            NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => {
                Kind::NotSupported
            }
            NvmlError::InUse => Kind::InUse,
            NvmlError::UnexpectedVariant(INSUFFICIENT_RESOURCES) => Kind::NoRoom,
            NvmlError::NoPermission | NvmlError::OperatingSystem => Kind::NoPermission,
            NvmlError::GpuLost => Kind::Lost,
            NvmlError::ResetRequired => Kind::ResetRequired,
            _ => Kind::Failed,
        };
        let why = match error {
            NvmlError::LibloadingError(_) => {
                "libnvidia-ml.so.1 cannot be loaded; it comes with the NVIDIA driver".to_owned()
            }
            NvmlError::UnexpectedVariant(INSUFFICIENT_RESOURCES) => "the GPU has no room for it".to_owned(),
            other => other.to_string(),
        };
        Self::new(call, kind, why)
    }

    /// Converts the fault to an action error for `place`.
    pub(super) fn at(&self, place: &str) -> ActionError {
        let why = format!("{place}: {self}");
        match self.kind {
            Kind::NotThere | Kind::Failed | Kind::Stopped => ActionError::transient(codes::UNAVAILABLE, why),
            Kind::InUse => ActionError::transient(codes::GPU_BUSY, why),
            Kind::NotSupported => ActionError::permanent(codes::UNSUPPORTED, why),
            Kind::NoPermission => ActionError::permanent(codes::DENIED, why),
            Kind::NoRoom | Kind::ResetRequired => ActionError::permanent(codes::LAYOUT_FAILED, why),
            Kind::Disagrees => ActionError::transient(codes::LAYOUT_DISAGREES, why),
            Kind::Lost => ActionError::permanent(codes::NODE_UNFIT, why),
        }
    }
}
