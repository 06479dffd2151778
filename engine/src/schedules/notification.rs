//! The notification of an occurrence that failed.

use crate::{Notification, model::documents::notification::OPERATORS};
use store::Timestamp;

impl Notification {
    /// An occurrence of a schedule failed.
    pub(crate) fn schedule_failed(schedule: &str, nominal: Timestamp, why: &str, at: Timestamp) -> Self {
        Self {
            id: format!("{schedule}.failed.{}", nominal.0),
            kind: "schedule.failed".into(),
            reason: None,
            about: schedule.into(),
            tenant: String::new(),
            to: vec![OPERATORS.into()],
            text: format!("{schedule} failed: {why}; `tenure schedules occurrences {schedule}`"),
            at,
        }
    }
}
