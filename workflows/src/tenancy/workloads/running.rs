//! Who runs in a workspace. A decision cannot ask for ranges, so what a reclaim chooses from is listed here, in parts
//! that each admission rewrites one of.

use crate::tenancy::{Amounts, Checkpoint, TenantId, WorkloadClass, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{CompositeKey, Timestamp};

/// A workload that runs, as a reclaim looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningEntry {
    /// What it is like.
    pub class: WorkloadClass,
    /// Higher is more important.
    pub priority: i32,
    /// Whether it may be evicted for others.
    pub preemptible: bool,
    /// How it saves its work.
    pub checkpoint: Checkpoint,
    /// What it uses.
    pub requests: Amounts,
    /// When it was first asked for.
    pub submitted_at: Timestamp,
    /// When it was admitted.
    pub admitted_at: Timestamp,
    /// Whether it is being evicted.
    pub reclaimed: bool,
}

/// A part of the list of who runs in a workspace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningList {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Which part, from 0.
    pub part: u8,
    /// By the workload's name.
    pub running: BTreeMap<String, RunningEntry>,
}

impl RunningList {
    /// In how many parts a workspace's list lies.
    pub const PARTS: u8 = 8;
    /// The most that one part lists, so that none nears the store's limit for a document (256 KiB). A workspace may run
    /// eight times as many, if their names spread evenly.
    pub const MOST: usize = 400;

    /// The part that lists the workload `name`.
    #[must_use]
    pub fn part_of(name: &str) -> u8 {
        // FNV-1a: stable over versions of Rust, unlike the standard hasher.
        let hash = name
            .bytes()
            .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
        u8::try_from(hash % u32::from(Self::PARTS)).unwrap_or(0)
    }

    /// The id of a part.
    #[must_use]
    pub fn key(tenant: &TenantId, workspace: &WorkspaceName, part: u8) -> String {
        CompositeKey::of(&[&tenant, &workspace, &part]).into()
    }

    /// The ids of all parts.
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
