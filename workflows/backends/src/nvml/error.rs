//! What NVML and CUDA answer when they do not do as asked, and what that means for an action.

use engine::ActionError;
use nvml_wrapper::error::NvmlError;
use workflows::platform::codes;

/// `NVML_ERROR_INSUFFICIENT_RESOURCES`, which the wrapper has no variant for.
const INSUFFICIENT_RESOURCES: u32 = 23;

/// A call that failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call}: {why}")]
pub struct Fault {
    /// What was called.
    pub call: String,
    /// What it means.
    pub kind: Kind,
    /// The answer, in words.
    pub why: String,
}

/// What a failed call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// There is no library or no driver, or they do not fit together.
    NotThere,
    /// The GPU or the driver cannot do this.
    NotSupported,
    /// Somebody has the GPU or the instance open.
    InUse,
    /// There is no room for it.
    NoRoom,
    /// This user may not.
    NoPermission,
    /// The GPU has fallen off the bus.
    Lost,
    /// It takes effect only after a reset of the GPU.
    ResetRequired,
    /// What was asked for is not what is there afterwards.
    Disagrees,
    /// The caller went away, so it was left off.
    Stopped,
    /// Anything else.
    Failed,
}

impl Fault {
    /// One of our own finding.
    pub(super) fn new(call: &str, kind: Kind, why: impl ToString) -> Self {
        Self { call: call.to_owned(), kind, why: why.to_string() }
    }

    /// What NVML answered to `call`.
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
            NvmlError::UnexpectedVariant(INSUFFICIENT_RESOURCES) => "there is no room for it".to_owned(),
            other => other.to_string(),
        };
        Self::new(call, kind, why)
    }

    /// What it means for an action at `place`.
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
