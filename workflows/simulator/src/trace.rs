//! A trace: demands with workspace, GPUs, time and duration. All adapters produce it from their files.

mod csv_rows;
pub(crate) mod dlrm;
pub(crate) mod native;
pub(crate) mod openb;
pub(crate) mod quota_shares;

use serde::Serialize;
use std::{collections::BTreeMap, time::Duration};
use workflows::tenancy::{Checkpoint, GpuKind, TenantId, WorkloadClass, WorkspaceClass, WorkspaceName};

pub use openb::{per_gpu, slice};
pub use quota_shares::{Counted, Split};

/// The treatment of a demand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// Determined by its workspace's share when it arrives: production and not preemptible inside the reservation,
    /// batch and preemptible above it.
    ByShare,
    /// Given by the trace.
    Given {
        /// The class.
        class: WorkloadClass,
        /// True if it may be evicted.
        preemptible: bool,
        /// Higher is more important.
        priority: i32,
    },
}

/// A demand: one workload, submitted once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Demand {
    /// The workload's name, unique in its trace.
    pub name: String,
    /// The submitting person or program, if the trace names one.
    pub by: Option<String>,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The trace's own group, such as an application. A workspace may contain several.
    pub origin: String,
    /// The arrival, as time since the start of the trace.
    pub at: Duration,
    /// The running time; `None` means until the end of the trace.
    pub lasts: Option<Duration>,
    /// The end in the recording, as time since the start of the trace. `None` if it was still running at the end.
    pub left: Option<Duration>,
    /// The kind of GPU.
    pub kind: GpuKind,
    /// The number of GPUs.
    pub gpus: u64,
    /// The number of GPUs that must be on one node; 0 for no constraint.
    pub together: u64,
    /// The treatment.
    pub standing: Treatment,
    /// The checkpoint type.
    pub checkpoint: Checkpoint,
}

impl Demand {
    /// Returns true if it held its GPUs at this time in the recording.
    #[must_use]
    pub fn held_at(&self, moment: Duration) -> bool {
        self.at < moment && self.left.is_none_or(|left| left > moment)
    }
}

/// The origin of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// Pods of the Alibaba GPU trace of 2023.
    Openb,
    /// Instances of the Alibaba GPU trace of 2025.
    Dlrm,
    /// Tenure's own format: one row or line per workload.
    Events,
    /// A scenario in YAML.
    Scenario,
    /// Drawn by the generator.
    Generated,
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// The origin.
    pub kind: Kind,
    /// The tenant of all demands.
    pub tenant: TenantId,
    /// The classes of the workspaces.
    pub workspaces: BTreeMap<WorkspaceName, WorkspaceClass>,
    /// Ordered by time, then as in the file.
    pub demands: Vec<Demand>,
    /// The end, as time since the start.
    pub ends: Duration,
    /// Assumptions and omissions, for the reader of the report.
    pub notes: Vec<String>,
}

impl Trace {
    /// Sorts the demands, and extends the trace to the last one.
    pub(super) fn settled(mut self) -> Self {
        self.demands.sort_by_key(|demand| demand.at);
        let last = self.demands.iter().map(|demand| demand.left.unwrap_or_default().max(demand.at)).max();
        self.ends = self.ends.max(last.unwrap_or_default());
        self
    }
}

/// Converts text to the name of a workspace; invalid characters become `-`.
pub(super) fn workspace_name(text: &str) -> Option<WorkspaceName> {
    let mut name = String::with_capacity(text.len());
    for c in text.chars().map(|c| c.to_ascii_lowercase()) {
        if c.is_ascii_lowercase() || c.is_ascii_digit() {
            name.push(c);
        } else if !name.is_empty() && !name.ends_with('-') {
            name.push('-');
        }
    }
    name.trim_end_matches('-').parse().ok()
}

/// Returns a number below `shares` that depends only on `text`.
pub(super) fn hashed(text: &str, shares: u64) -> u64 {
    use sha2::{Digest as _, Sha256};
    let digest = Sha256::digest(text.as_bytes());
    let head = digest.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    head.checked_rem(shares).unwrap_or(0)
}

/// Priorities of replayed demands: production above batch, so that a workspace's own batch work is evicted first.
pub(super) const PRODUCTION: i32 = 100;
/// See [`PRODUCTION`].
pub(super) const BATCH: i32 = 0;
