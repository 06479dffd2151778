//! Usage in GPU-milliseconds, by charge: exact integer sums, metered in the commits that change the usage.

use crate::tenancy::{Resource, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{CompositeKey, Timestamp};

/// Usage in pieces times milliseconds. A thousand GPUs fill the counter in 500,000 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageCounters {
    /// Usage within the nominal quota.
    pub own: u64,
    /// Usage of loans; charged to the workspace.
    pub borrowed: u64,
    /// Usage above the nominal quota without a lender, after a quota was lowered.
    pub over: u64,
    /// Earmarked for its demand.
    pub in_transit: u64,
    /// Lent to others; credited to the workspace.
    pub lent: u64,
}

/// The GPUs of one kind on a tenant's nodes, with their use since the account was opened. A piece is free, resting (unused but not assignable) or in use at
/// every time (I-24).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityUsage {
    /// Pieces on the tenant's nodes, in any state.
    pub pieces: u64,
    /// Unused pieces that can be assigned.
    pub free: u64,
    /// Unused pieces that cannot be assigned: on nodes that are draining, lost or unfit, and barred GPUs.
    pub resting: u64,
    /// Piece-milliseconds in all.
    pub pieces_spent: u64,
    /// Piece-milliseconds free.
    pub free_spent: u64,
    /// Piece-milliseconds resting.
    pub resting_spent: u64,
}

/// The usage of one workspace in one month. Never rewritten after the end of the month; the current month is metered in the [`Cohort`](crate::tenancy::Cohort).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonthlyUsage {
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The month in UTC, such as `2026-01`.
    pub month: String,
    /// The start within that month.
    pub from: Timestamp,
    /// The end.
    pub to: Timestamp,
    /// By resource.
    pub spent: BTreeMap<Resource, UsageCounters>,
}

impl MonthlyUsage {
    /// Returns the id of a workspace's month.
    #[must_use]
    pub fn key(tenant: &TenantId, workspace: &WorkspaceName, month: &str) -> String {
        CompositeKey::of(&[&tenant, &workspace, &month]).into()
    }
}

impl Entity for MonthlyUsage {
    const COLLECTION: &'static str = "usages";
    const RETENTION: engine::Retention<Self> = engine::Retention::Forever;

    fn id(&self) -> String {
        Self::key(&self.tenant, &self.workspace, &self.month)
    }
}
