//! A delegation, as it is passed to the core together with a vote.
//!
//! The shell finds the delegations; the core decides whether one covers a vote. A delegation cannot be delegated
//! further.

use serde::{Deserialize, Serialize};
use store::Timestamp;

/// The right to vote for another person, for a limited time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct VoteDelegation {
    /// The id of the delegation.
    pub id: String,
    /// The person who delegates.
    pub from: String,
    /// The person who may vote for them.
    pub to: String,
    /// The delegated roles and groups; empty for all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Start of the delegation.
    pub since: Timestamp,
    /// End of the delegation, exclusive.
    pub until: Timestamp,
}

impl VoteDelegation {
    /// Returns true if the delegation is active at `at`.
    #[must_use]
    pub fn is_active(&self, at: Timestamp) -> bool {
        self.since <= at && at < self.until
    }

    /// Returns true if the delegation is active at any time from `from` to `to`, both inclusive.
    pub(crate) fn touches(&self, from: Timestamp, to: Timestamp) -> bool {
        self.since <= to && from < self.until && self.since < self.until
    }

    pub(super) fn covers(&self, role: &String) -> bool {
        self.roles.is_empty() || self.roles.contains(role)
    }
}
