//! A delegation, as it is passed to the core together with a vote.
//!
//! The shell finds the delegations; the core decides whether one covers a vote. A delegation cannot be delegated
//! further.

use serde::{Deserialize, Serialize};
use store::Timestamp;

/// That somebody may vote for somebody else, for a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoteDelegation {
    /// Names the delegation.
    pub id: String,
    /// Who delegates.
    pub from: String,
    /// To whom.
    pub to: String,
    /// Which roles and groups; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// From when on.
    pub since: Timestamp,
    /// Until when, that moment excluded.
    pub until: Timestamp,
}

impl VoteDelegation {
    /// Whether it counts at `at`.
    #[must_use]
    pub fn is_active(&self, at: Timestamp) -> bool {
        self.since <= at && at < self.until
    }

    /// Whether it counts at any time from `from` to `to`, both included.
    pub(crate) fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        self.since <= to && from < self.until && self.since < self.until
    }

    pub(super) fn covers(&self, role: &String) -> bool {
        self.roles.is_empty() || self.roles.contains(role)
    }
}
