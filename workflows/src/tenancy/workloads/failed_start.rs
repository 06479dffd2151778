//! An admitted workload whose start failed, until the next attempt.

use crate::tenancy::{TenantId, Workload};
use engine::Entity;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use store::{ExecutionId, Timestamp};

/// A failed start of a workload that is still admitted. The commit of the next attempt removes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedStart {
    /// The workload's tenant.
    pub tenant: TenantId,
    /// The name.
    pub workload: String,
    /// The decision that admitted it.
    pub decision: String,
    /// The execution that failed last.
    pub execution: ExecutionId,
    /// The number of consecutive failures.
    pub tries: u32,
    /// The time of the last failure.
    pub at: Timestamp,
    /// The time of the next attempt.
    pub next_at: Timestamp,
}

impl FailedStart {
    /// The number of failures after which an operator must check it.
    pub const STUCK_AFTER: u32 = 4;

    /// Returns the pause before the next try: a minute after the first failure, twice as long after each further one, and at most 6 hours.
    #[must_use]
    pub fn pause(tries: u32) -> Duration {
        let doubled = 1_u32.checked_shl(tries.saturating_sub(1)).unwrap_or(u32::MAX);
        engine::MINUTE.saturating_mul(doubled).min(engine::HOUR * 6)
    }

    /// Returns true if it has failed so often that an operator must check it.
    #[must_use]
    pub fn is_stuck(&self) -> bool {
        self.tries >= Self::STUCK_AFTER
    }
}

impl Entity for FailedStart {
    const COLLECTION: &'static str = "failed-starts";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        Workload::key(&self.tenant, &self.workload)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_six_hours() {
        let minutes = |tries| FailedStart::pause(tries).as_secs() / 60;
        assert_eq!([1, 2, 3, 9, 10, 40, u32::MAX].map(minutes), [1, 2, 4, 256, 360, 360, 360]);
    }
}
