//! A trace: who asked for which GPUs, when, and for how long. What every adapter makes of its file.

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

/// How a demand is treated by others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Treatment {
    /// As its workspace's share says at the moment it is made: inside the reservation it is production and may not be
    /// evicted, above it is batch and may.
    ByShare,
    /// As the trace says.
    Given {
        /// What it is like.
        class: WorkloadClass,
        /// Whether it may be evicted for others.
        preemptible: bool,
        /// Higher is more important.
        priority: i32,
    },
}

/// A demand: one workload, asked for once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Demand {
    /// The workload's name, unique in its trace.
    pub name: String,
    /// The person or program that asks, where the trace names one.
    pub by: Option<String>,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// What the trace itself groups by, such as an application; a workspace may hold several.
    pub origin: String,
    /// Asked for so long after the trace begins.
    pub at: Duration,
    /// How long it works once it runs; `None` until the trace ends.
    pub lasts: Option<Duration>,
    /// When it left in the recording, so long after the trace begins; `None` if it outlived it.
    pub left: Option<Duration>,
    /// Which GPUs.
    pub kind: GpuKind,
    /// How many of them.
    pub gpus: u64,
    /// The most of them that must lie on one node; 0 for anywhere.
    pub together: u64,
    /// How it is treated.
    pub standing: Treatment,
    /// How it saves its work.
    pub checkpoint: Checkpoint,
}

impl Demand {
    /// Whether it held its GPUs in the recording at `moment`.
    #[must_use]
    pub fn held_at(&self, moment: Duration) -> bool {
        self.at < moment && self.left.is_none_or(|left| left > moment)
    }
}

/// Where a trace comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, strum::IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum Kind {
    /// Pods of the Alibaba GPU trace of 2023.
    Openb,
    /// Instances of the Alibaba GPU trace of 2025.
    Dlrm,
    /// Tenure's own: one row or line per workload.
    Events,
    /// A scenario in YAML.
    Scenario,
    /// Made by the generator.
    Generated,
}

/// A trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Trace {
    /// Where it comes from.
    pub kind: Kind,
    /// The tenant that all of it is replayed under.
    pub tenant: TenantId,
    /// What each workspace is for.
    pub workspaces: BTreeMap<WorkspaceName, WorkspaceClass>,
    /// By moment, then as the file has them.
    pub demands: Vec<Demand>,
    /// When it ends, so long after it begins.
    pub ends: Duration,
    /// What was left out or presumed, for people to check.
    pub notes: Vec<String>,
}

impl Trace {
    /// Puts the demands in order, and makes sure that the trace does not end before them.
    pub(super) fn settled(mut self) -> Self {
        self.demands.sort_by_key(|demand| demand.at);
        let last = self.demands.iter().map(|demand| demand.left.unwrap_or_default().max(demand.at)).max();
        self.ends = self.ends.max(last.unwrap_or_default());
        self
    }
}

/// `text` as the name of a workspace: what it may not contain becomes `-`.
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

/// A number below `shares` that depends on nothing but `text`.
pub(super) fn hashed(text: &str, shares: u64) -> u64 {
    use sha2::{Digest as _, Sha256};
    let digest = Sha256::digest(text.as_bytes());
    let head = digest.iter().take(8).fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
    head.checked_rem(shares).unwrap_or(0)
}

/// The recipe's priorities (domain 7.3): production above batch, so that a workspace's own batch makes room first.
pub(super) const PRODUCTION: i32 = 100;
/// See [`PRODUCTION`].
pub(super) const BATCH: i32 = 0;
