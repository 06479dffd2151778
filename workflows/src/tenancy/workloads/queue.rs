//! The queue of a workspace, most important first, then oldest.

use crate::tenancy::{Amounts, TenantId, WorkloadClass, WorkspaceName, workspace_key};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// A queued workload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedWorkload {
    /// The workload's name.
    pub workload: String,
    /// The priority. A higher value is more important.
    pub priority: i32,
    /// When it was first submitted: its place in the queue, kept when it is requeued.
    pub since: Timestamp,
    /// When it took this place. Only the wait since then counts for aging.
    pub entered_at: Timestamp,
    /// The requested amounts.
    pub requests: Amounts,
    /// The number of GPUs that must be on one node.
    pub together: u64,
    /// True if it may be evicted for other workloads. Otherwise it never borrows.
    pub preemptible: bool,
    /// The class. Policy decides which classes may borrow. `None` in documents of earlier versions.
    #[serde(default)]
    pub class: Option<WorkloadClass>,
    /// The time since which it waits within its workspace's own quota, so that GPUs are reclaimed for it.
    pub demanded_at: Option<Timestamp>,
    /// The time before which it is not admitted as a borrower.
    pub cooling_until: Option<Timestamp>,
}

/// The queue of one workspace. A head document: every change rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceQueue {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// Most important first, then oldest, then by name.
    pub waiting: Vec<QueuedWorkload>,
}

impl WorkspaceQueue {
    /// The most workloads in one queue, for any policy.
    pub const MOST: usize = 1_000;
    /// The longest document of a queue, in bytes, that accepts another workload. It stays below the store's limit (256 KiB) even if victims are requeued: about
    /// 500 workloads with the longest names, 1,000 with usual ones.
    pub const LONGEST: usize = 224 << 10;
}

impl Entity for WorkspaceQueue {
    const COLLECTION: &'static str = "lines";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        workspace_key(&self.tenant, &self.workspace)
    }
}
