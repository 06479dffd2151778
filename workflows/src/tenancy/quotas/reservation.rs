//! A reservation: the part of a workspace's nominal quota that it gets back within a deadline, whoever uses it meanwhile.

use crate::tenancy::{GpuKind, TenantId, WorkspaceName};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{CompositeKey, Timestamp};

/// A reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reservation {
    /// Its name within the workspace.
    pub name: String,
    /// Whose it is.
    pub tenant: TenantId,
    /// Of which workspace.
    pub workspace: WorkspaceName,
    /// Of what.
    pub kind: GpuKind,
    /// How much; over a workspace and kind never more than the nominal quota.
    pub count: u64,
    /// From when.
    pub from: Timestamp,
    /// Until when; `None` for as long as the quota lasts.
    pub to: Option<Timestamp>,
    /// From demand to usable GPUs.
    pub reclaim_deadline: Duration,
    /// How long a borrower has between the notice and the eviction.
    pub grace: Duration,
}

impl Reservation {
    /// The id of a reservation.
    #[must_use]
    pub fn key(tenant: &TenantId, workspace: &WorkspaceName, name: &str) -> String {
        CompositeKey::of(&[&tenant, &workspace]).tail(name).into()
    }

    /// Whether it holds at `at`.
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
