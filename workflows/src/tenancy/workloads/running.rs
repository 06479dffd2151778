//! The running workloads of a workspace. A decision cannot query ranges, so the candidates of a reclaim are listed here, in parts. Each admission rewrites one
//! part.

use crate::tenancy::{Amounts, Checkpoint, TenantId, WorkloadClass, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{CompositeKey, Timestamp};

/// A running workload, with the facts for a reclaim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningEntry {
    /// The class.
    pub class: WorkloadClass,
    /// The priority. A higher value is more important.
    pub priority: i32,
    /// True if it may be evicted for other workloads.
    pub preemptible: bool,
    /// The checkpoint support.
    pub checkpoint: Checkpoint,
    /// The used amounts.
    pub requests: Amounts,
    /// When it was first submitted.
    pub submitted_at: Timestamp,
    /// When it was admitted.
    pub admitted_at: Timestamp,
    /// True if it is being evicted.
    pub reclaimed: bool,
}

/// A part of a workspace's list of running workloads.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningList {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The index of the part, from 0.
    pub part: u8,
    /// By the workload's name.
    pub running: BTreeMap<String, RunningEntry>,
}

impl RunningList {
    /// The number of parts of a workspace's list.
    pub const PARTS: u8 = 8;
    /// The most workloads in one part, so that it stays below the store's limit for a document (256 KiB). A workspace can run eight times this number if the
    /// names spread evenly.
    pub const MOST: usize = 400;

    /// Returns the part that lists the workload `name`.
    #[must_use]
    pub fn part_of(name: &str) -> u8 {
        // FNV-1a: stable over versions of Rust, unlike the standard hasher.
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        u8::try_from(hash % u32::from(Self::PARTS)).unwrap_or(0)
    }

    /// Returns the id of a part.
    #[must_use]
    pub fn key(tenant: &TenantId, workspace: &WorkspaceName, part: u8) -> String {
        CompositeKey::of(&[&tenant, &workspace, &part]).into()
    }

    /// Returns the ids of all parts.
    pub fn keys<'a>(tenant: &'a TenantId, workspace: &'a WorkspaceName) -> impl Iterator<Item = String> + 'a {
        (0..Self::PARTS).map(move |part| Self::key(tenant, workspace, part))
    }
}

impl Entity for RunningList {
    const COLLECTION: &'static str = "rosters";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::key(&self.tenant, &self.workspace, self.part)
    }
}
