//! Who waits for GPUs of one model in one region, oldest first.

use crate::tenancy::{GpuModel, Gpus, RegionId, TenantId};
use engine::Entity;
use serde::{Deserialize, Serialize};
use store::{CompositeKey, ExecutionId, Timestamp};

/// One who waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waiter {
    /// The execution to be woken by the signal `capacity.freed`.
    pub execution: ExecutionId,
    /// For whom.
    pub tenant: TenantId,
    /// How many GPUs would do.
    pub gpus: Gpus,
    /// Since when; kept over every further wait.
    pub since: Timestamp,
    /// Until when, before people are asked.
    pub until: Timestamp,
}

/// The queue. A head document: every change of who waits rewrites it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Waitlist {
    /// Where the GPUs would be.
    pub region: RegionId,
    /// Their model.
    pub model: GpuModel,
    /// Oldest first.
    pub waiters: Vec<Waiter>,
}

impl Waitlist {
    /// The id of the queue for `model` in `region`.
    #[must_use]
    pub fn key(region: &RegionId, model: &GpuModel) -> String {
        CompositeKey::of(&[&region, &model]).into()
    }

    /// The queue with `waiter` in it; one who waits already keeps the place.
    #[must_use]
    pub fn with(mut self, waiter: Waiter) -> Self {
        if !self.waiters.iter().any(|waits| waits.execution == waiter.execution) {
            self.waiters.push(waiter);
            self.waiters.sort_by_key(|waits| (waits.since, waits.execution));
        }
        self
    }

    /// The queue without `execution`.
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
