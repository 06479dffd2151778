//! The time limits of a request's approvals and waits, and its approvers before it has terms. Quota and SLA changes have the same.

use engine::{DAY, HOUR, Seat};
use std::time::Duration;

/// The time limits of approvals, of capacity, and of excess usage.
pub(crate) struct Waits {
    pub(crate) approve: Duration,
    pub(crate) wait: Duration,
    pub(crate) patience: Duration,
    /// The longest wait for a signal before a check without it, so that a lost signal does not block the request.
    pub(crate) recheck: Duration,
}

impl Waits {
    pub(crate) fn new(approve: Duration, wait: Duration, patience: Duration) -> Self {
        Self { approve, wait, patience, recheck: HOUR.min(wait) }
    }
}

impl Default for Waits {
    fn default() -> Self {
        Self::new(5 * DAY, 30 * DAY, 5 * DAY)
    }
}

/// Returns the seats of a request without terms.
pub(crate) fn default_seats() -> Vec<Seat> {
    vec![Seat::new("platform_ops", 1)]
}
