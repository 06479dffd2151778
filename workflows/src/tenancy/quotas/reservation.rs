//! A reservation: the part of a workspace's nominal quota that it gets back within a deadline, even if it is on loan.

use crate::tenancy::{GpuKind, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{CompositeKey, Timestamp};

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// The name, unique within the workspace.
    pub name: String,
    /// The tenant.
    pub tenant: TenantId,
    /// The workspace.
    pub workspace: WorkspaceName,
    /// The kind.
    pub kind: GpuKind,
    /// The amount; in sum over a workspace and kind at most the nominal quota.
    pub count: u64,
    /// The start.
    pub from: Timestamp,
    /// The end; `None` for as long as the quota lasts.
    pub to: Option<Timestamp>,
    /// The time from a demand to usable GPUs.
    pub reclaim_deadline: Duration,
    /// The time between a borrower's notice and its eviction.
    pub grace: Duration,
}

impl Reservation {
    /// Returns the id of a reservation.
    #[must_use]
    pub fn key(tenant: &TenantId, workspace: &WorkspaceName, name: &str) -> String {
        CompositeKey::of(&[&tenant, &workspace]).tail(name).into()
    }

    /// Returns true if it is in force at `at`.
    #[must_use]
    pub fn is_active(&self, at: Timestamp) -> bool {
        self.from <= at && self.to.is_none_or(|to| at < to)
    }
}

impl Entity for Reservation {
    const COLLECTION: &'static str = "reservations";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::key(&self.tenant, &self.workspace, &self.name)
    }
}
