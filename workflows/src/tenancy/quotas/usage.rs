//! What was used, for how long and at whose charge, in GPU-milliseconds: exact sums of whole numbers, counted in the same
//! commits that change what is used.

use crate::tenancy::{Resource, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use store::{CompositeKey, Timestamp};

/// Pieces of a resource times milliseconds. A thousand GPUs fill it in 500,000 years.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsageCounters {
    /// Used within its nominal.
    pub own: u64,
    /// Used on loan from others; charged to it.
    pub borrowed: u64,
    /// Used beyond its nominal though nobody lent it, after a quota was lowered.
    pub over: u64,
    /// Set aside for its demand.
    pub in_transit: u64,
    /// Lent to others; credited to it.
    pub lent: u64,
}

/// The GPUs of one kind on a tenant's nodes, and how they were used since the account began. What is neither free nor
/// resting is in use, so that each piece's every moment is accounted for (I-24).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapacityUsage {
    /// Pieces on the tenant's nodes, whatever their state.
    pub pieces: u64,
    /// Pieces that nobody uses and that may be given away.
    pub free: u64,
    /// Pieces that nobody uses and that may not be given away: on nodes that drain, are lost or were found unfit, and
    /// single GPUs that are barred.
    pub resting: u64,
    /// Piece-milliseconds in all.
    pub pieces_spent: u64,
    /// Piece-milliseconds free.
    pub free_spent: u64,
    /// Piece-milliseconds resting.
    pub resting_spent: u64,
}

/// What one workspace used in one month. Never rewritten once the month is over; the month that runs is counted in the
/// [`Cohort`](crate::tenancy::Cohort).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MonthlyUsage {
    /// Whose.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// The month in UTC, as `2026-01`.
    pub month: String,
    /// From when in that month.
    pub from: Timestamp,
    /// Until when.
    pub to: Timestamp,
    /// By resource.
    pub spent: BTreeMap<Resource, UsageCounters>,
}

impl MonthlyUsage {
    /// The id of a workspace's month.
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
