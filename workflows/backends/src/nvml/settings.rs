//! What is configured of a machine's GPUs.

use serde::Deserialize;
use std::{collections::BTreeMap, path::PathBuf, time::Duration};

/// The GPUs of the machine on which this runs.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NvmlTarget {
    /// The cluster to which the machine belongs, as workflows name it.
    pub cluster: String,
    /// Its name in that cluster.
    pub node: String,
    /// The file in which the node keeps which layout was asked for, keys and epochs. Its folder must exist, on a disk that outlives
    /// a reboot.
    pub state: PathBuf,
    /// NVML's library. Default `libnvidia-ml.so.1`, found by the loader.
    #[serde(default = "nvml_library")]
    pub library: PathBuf,
    /// The CUDA driver's library. Default `libcuda.so.1`, found by the loader.
    #[serde(default = "cuda_library")]
    pub cuda_library: PathBuf,
    /// How many GPUs the machine has; one that is missing makes it unfit. Default: as many as the driver lists, so that a
    /// missing one is not noticed.
    #[serde(default)]
    pub gpus: Option<u32>,
    /// Layouts by name, each a list of profiles that every GPU is given, such as `["3g.40gb", "2g.20gb", "2g.20gb"]`. Beside them
    /// there are `all-disabled` and `all-PROFILE`. Default none.
    #[serde(default)]
    pub layouts: BTreeMap<String, Vec<String>>,
    /// The program that tests the GPUs, as an absolute path: it is given `medium` or `long`, ends with 0 where they are fit and with 1 where
    /// they are not, and what it prints is kept. Default none: then no node of its cluster can be handed to a tenant.
    #[serde(default)]
    pub diagnosis: Option<PathBuf>,
    /// Milliseconds between two of the three looks after which GPUs count as free. Default 1000.
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

/// Settings that cannot be worked with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {why}")]
pub struct TargetError {
    /// Which setting.
    pub field: &'static str,
    /// What is wrong with it, and what to do.
    pub why: String,
}

impl NvmlTarget {
    /// How long between two looks.
    #[must_use]
    pub fn looks_apart(&self) -> Duration {
        Duration::from_millis(self.looks_apart_ms)
    }

    pub(super) fn check(&self) -> Result<(), TargetError> {
        let wrong = |field, why: &str| Err(TargetError { field, why: why.to_owned() });
        if self.cluster.is_empty() || self.node.is_empty() {
            return wrong("cluster, node", "must not be empty: name the machine as workflows do");
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
                "names that begin with `all-` or `gpus:` have a meaning already: choose others",
            );
        }
        Ok(())
    }
}
