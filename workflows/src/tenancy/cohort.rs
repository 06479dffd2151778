//! A tenant's account of what its workspaces may use and use. The head for every admission: each changes it, so two
//! that cannot both hold never both commit.
//!
//! In Kueue's words the tenant is the root cohort and its workspaces are its cluster queues (their arithmetic:
//! pkg/cache/scheduler/resource_node.go of kubernetes-sigs/kueue).

use super::{Allowance, Resource, TenantId, WorkspaceClass, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{ExecutionId, Timestamp};

/// What a workspace may use of one resource, and uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Balance {
    /// What it may use.
    pub allowance: Allowance,
    /// The part of the nominal that is promised at any time, within a deadline: its reservations.
    pub reserved: u64,
    /// What its admitted workloads use, those being reclaimed included.
    pub used: u64,
    /// What has been freed for its pending demand and not been granted yet. Counts as used, so that no third party is
    /// admitted to GPUs in transit (I-10).
    pub in_transit: u64,
}

/// Whether a workspace's account takes new workloads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Admitting {
    /// It does.
    #[default]
    Open,
    /// Nothing new is admitted, such as while the tenant leaves; what runs goes on.
    Frozen {
        /// The execution that froze it, and alone may open it again.
        by: ExecutionId,
    },
}

/// One workspace in its tenant's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// What the workspace is for.
    pub class: WorkspaceClass,
    /// By resource, as in [`Quota::allowances`](super::Quota::allowances).
    pub balances: BTreeMap<Resource, Balance>,
    /// Whether it takes new workloads.
    pub admitting: Admitting,
    /// Until then it does not borrow: its borrowed workloads were reclaimed a moment ago.
    pub cooling_until: Option<Timestamp>,
    /// Until then its borrowing limits count half: it was reclaimed from again and again.
    pub halved_until: Option<Timestamp>,
    /// When its loans were reclaimed, newest last; the last hour's alone.
    pub reclaimed_at: Vec<Timestamp>,
    /// How many of its workloads wait.
    pub waiting: u32,
}

/// The reclaim that is executing for one kind. At most one at a time (I-15).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reclaiming {
    /// The execution.
    pub execution: ExecutionId,
    /// The workspace whose demand it serves.
    pub workspace: WorkspaceName,
    /// The workload that demands; `None` when a sweep or an operator calls loans back.
    pub workload: Option<String>,
    /// When the promise is broken.
    pub deadline: Timestamp,
}

/// A tenant's account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cohort {
    /// Whose it is.
    pub tenant: TenantId,
    /// By workspace.
    pub accounts: BTreeMap<WorkspaceName, Account>,
    /// By kind of GPU.
    pub reclaims: BTreeMap<Resource, Reclaiming>,
    /// Counts the loans that were ever opened, so that each has a number of its own.
    pub loans: u64,
    /// Counts the decisions on admission that were ever taken.
    pub decisions: u64,
}

impl Entity for Cohort {
    const COLLECTION: &'static str = "cohorts";

    fn id(&self) -> String {
        self.tenant.to_string()
    }
}
