//! Facts of an onboarding decision about the day and about closed tenants. Plain data.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// The facts of the preflight checks, in addition to the request and the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preflight {
    /// The day of the decision in UTC, as `2026-01-31`.
    pub today: String,
    /// The closed tenant that had the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedName>,
}

/// A name that a closed tenant had. It cannot be used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedName {
    /// The time when the tenant was closed, if known.
    pub at: Option<Timestamp>,
}

impl ClosedName {
    /// Returns a sentence about the earlier use and its end.
    #[must_use]
    pub fn describe(&self) -> String {
        let until = self.at.map(|at| format!("closed on {}", day(at)));
        format!("was used; {}; names cannot be reused", until.as_deref().unwrap_or("its tenant is closed"))
    }
}

/// Returns the day of `at` in UTC, in the format of contracts.
#[must_use]
pub fn day(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(DateTime::<Utc>::from_timestamp_millis);
    at.map(|at| at.format("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// Returns true if a contract has ended on `today`. `to` is the day after its last day.
#[must_use]
pub fn has_ended(to: &str, today: &str) -> bool {
    to <= today
}
