//! What a decision on an onboarding knows of the day and of closed tenants. Plain data.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use store::Timestamp;

/// What the checks look at beside the request and the fleet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preflight {
    /// The day of the decision in UTC, as `2026-01-31`.
    pub today: String,
    /// The closed tenant that had the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<ClosedName>,
}

/// A name that a closed tenant had. It is not used again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedName {
    /// When the tenant was closed, if that is known.
    pub at: Option<Timestamp>,
}

impl ClosedName {
    /// Says that the name was used, and until when.
    #[must_use]
    pub fn describe(&self) -> String {
        let until = self.at.map(|at| format!("closed on {}", day(at)));
        format!("was used; {}; a name is not used again", until.as_deref().unwrap_or("its tenant is closed"))
    }
}

/// The day of `at` in UTC, as contracts write it.
#[must_use]
pub fn day(at: Timestamp) -> String {
    let at = i64::try_from(at.0).ok().and_then(DateTime::<Utc>::from_timestamp_millis);
    at.map(|at| at.format("%Y-%m-%d").to_string()).unwrap_or_default()
}

/// Returns true if a contract that ends on `to`, the day after its last, has ended on `today`.
#[must_use]
pub fn has_ended(to: &str, today: &str) -> bool {
    to <= today
}
