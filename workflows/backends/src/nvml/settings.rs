//! Settings for the GPUs of one machine.

use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// The GPUs of the local machine.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvmlTarget {
    /// The machine's cluster, as workflows name it.
    pub cluster: String,
    /// The machine's name in that cluster.
    pub node: String,
    /// The state file: the applied layout, keys and epochs. Its folder must exist, on a disk that keeps its content
    /// across reboots.
    pub state: PathBuf,
    /// NVML's library. Default `libnvidia-ml.so.1`, found by the loader.
    #[serde(default = "nvml_library")]
    pub library: PathBuf,
    /// The CUDA driver's library. Default `libcuda.so.1`, found by the loader.
    #[serde(default = "cuda_library")]
    pub cuda_library: PathBuf,
    /// The number of GPUs in the machine. If one is missing, the node is unfit. Default: the number that the driver
    /// lists, so that a missing GPU is not detected.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// Layouts by name. Each is a list of profiles that every GPU gets, such as `["3g.40gb", "2g.20gb", "2g.20gb"]`.
    /// `all-disabled` and `all-PROFILE` always exist. Default: none.
    #[serde(default)]
    pub layouts: BTreeMap<String, Vec<String>>,
    /// The program that tests the GPUs, as an absolute path. It is called with `medium` or `long` and exits with 0 if
    /// the GPUs are fit and 1 if they are not. Its output is kept. Default: none; then no node of the cluster can be
    /// assigned to a tenant.
    #[serde(default)]
    pub diagnosis: Option<PathBuf>,
    /// The time between two of the three checks after which GPUs count as free, in milliseconds. Default 1000.
    #[serde(default = "apart")]
    pub looks_apart_ms: u64,
}

fn nvml_library() -> PathBuf {
    "libnvidia-ml.so.1".into()
}

fn cuda_library() -> PathBuf {
    "libcuda.so.1".into()
}

fn apart() -> u64 {
    1_000
}

/// An invalid setting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct TargetError {
    /// The name of the setting.
    pub field: &'static str,
    /// The problem and the fix.
    pub why: String,
}

impl NvmlTarget {
    /// Returns the time between two checks.
    #[must_use]
    pub fn looks_apart(&self) -> Duration {
        Duration::from_millis(self.looks_apart_ms)
    }

    pub(super) fn check(&self) -> Result<(), TargetError> {
        let wrong = |field, why: &str| Err(TargetError { field, why: why.to_owned() });
        if self.cluster.is_empty() || self.node.is_empty() {
            return wrong("cluster, node", "must not be empty: use the name of the node in Tenure");
        }
        let folder = self.state.parent().filter(|folder| !folder.as_os_str().is_empty());
        if folder.is_some_and(|folder| !folder.is_dir()) {
            return wrong("state", "its folder does not exist: create it, writable for this user");
        }
        if self.diagnosis.as_ref().is_some_and(|program| !program.is_absolute()) {
            return wrong(
                "diagnosis",
                "must be an absolute path of a program: it is started without a shell",
            );
        }
        let taken = |name: &String| name.starts_with("all-") || name.starts_with("gpus:");
        if self.layouts.keys().any(taken) {
            return wrong(
                "layouts",
                "names that begin with `all-` or `gpus:` are reserved: choose other names",
            );
        }
        Ok(())
    }
}
