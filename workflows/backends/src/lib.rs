//! Implementations of the platform's capabilities: real targets, each behind its own feature, and a simulated platform
//! for all targets that the target file does not name. Also GPU facts of this machine from NVML, and the keys of sealed
//! records.

pub mod agents;
mod assemble;
#[cfg(any(feature = "pkcs11", feature = "s3", feature = "vault"))]
mod connection_settings;
#[cfg(feature = "drives")]
pub mod drives;
#[cfg(feature = "exec")]
pub mod exec;
pub mod hooks;
#[cfg(feature = "http")]
pub mod http;
pub mod http_response;
#[cfg(feature = "kubernetes")]
pub mod kubernetes;
pub mod nvml;
pub mod outbound;
#[cfg(feature = "pkcs11")]
pub mod pkcs11;
pub mod record_keys;
pub mod routing;
#[cfg(feature = "s3")]
pub mod s3;
pub mod simulated;
#[cfg(feature = "slurm")]
pub mod slurm;
#[cfg(any(feature = "drives", feature = "nvml"))]
mod state_file;
mod target_error;
pub mod targets;
#[cfg(feature = "vault")]
pub mod vault;

pub use assemble::Connected;
#[cfg(any(feature = "pkcs11", feature = "s3", feature = "vault"))]
pub use connection_settings::SettingError;
pub use target_error::TargetError;
