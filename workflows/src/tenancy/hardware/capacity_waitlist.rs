//! The waitlist for GPUs of one model in one region, oldest first.

use crate::tenancy::{GpuModel, Gpus, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::{CompositeKey, ExecutionId, Timestamp};

/// An entry of the waitlist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The execution that gets the signal `capacity.freed`.
    pub execution: ExecutionId,
    /// The tenant.
    pub tenant: TenantId,
    /// The required GPUs.
    pub gpus: Gpus,
    /// The start of the wait; kept when it waits again.
    pub since: Timestamp,
    /// The end of the wait, when an approval is requested.
    pub until: Timestamp,
}

/// The waitlist. A head document: every change rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waitlist {
    /// The region.
    pub region: RegionId,
    /// The model.
    pub model: GpuModel,
    /// The entries, oldest first.
    pub waiters: Vec<Waiter>,
}

impl Waitlist {
    /// Returns the id of the waitlist for `model` in `region`.
    #[must_use]
    pub fn key(region: &RegionId, model: &GpuModel) -> String {
        CompositeKey::of(&[&region, &model]).into()
    }

    /// Returns the waitlist with `waiter`; an existing entry keeps its place.
    #[must_use]
    pub fn with(mut self, waiter: Waiter) -> Self {
        if !self.waiters.iter().any(|waits| waits.execution == waiter.execution) {
            self.waiters.push(waiter);
            self.waiters.sort_by_key(|waits| (waits.since, waits.execution));
        }
        self
    }

    /// Returns the waitlist without `execution`.
    #[must_use]
    pub fn without(mut self, execution: ExecutionId) -> Self {
        self.waiters.retain(|waits| waits.execution != execution);
        self
    }
}

impl Entity for Waitlist {
    const COLLECTION: &'static str = "waitlists";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Self::key(&self.region, &self.model)
    }
}
