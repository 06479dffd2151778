//! Who waits in a workspace: its line, most important first, then oldest.

use crate::tenancy::{Amounts, TenantId, WorkloadClass, WorkspaceName, workspace_key};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// One that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedWorkload {
    /// The workload's name.
    pub workload: String,
    /// Higher is more important.
    pub priority: i32,
    /// When it was first asked for: its place in line, kept when it is put back.
    pub since: Timestamp,
    /// When it took this place; only what it waits counts as waiting.
    pub entered_at: Timestamp,
    /// What it asks for.
    pub requests: Amounts,
    /// The most GPUs that must lie on one node.
    pub together: u64,
    /// Whether it may be evicted for others; one that may not never borrows.
    pub preemptible: bool,
    /// What kind of work it is: policy says which may borrow. `None` if it took its place before this was kept.
    #[serde(default)]
    pub class: Option<WorkloadClass>,
    /// Since when it waits inside its workspace's own quota, so that its GPUs are called back.
    pub demanded_at: Option<Timestamp>,
    /// Until then it is not admitted as a borrower.
    pub cooling_until: Option<Timestamp>,
}

/// The line of one workspace. A head document: every change of who waits rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceQueue {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Most important first, then oldest, then by name.
    pub waiting: Vec<QueuedWorkload>,
}

impl WorkspaceQueue {
    /// The most that wait in one line, whatever policy allows.
    pub const MOST: usize = 1_000;
    /// How long a line's document may be, in bytes, for another to join, so that it keeps under the store's limit (256 KiB)
    /// also when victims are put back: about 500 with the longest names, 1,000 with usual ones.
    pub const LONGEST: usize = 224 << 10;
}

impl Entity for WorkspaceQueue {
    const COLLECTION: &'static str = "lines";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        workspace_key(&self.tenant, &self.workspace)
    }
}
