//! The hold: a store that leases no work until an operator releases it. ADR 0015 has the reasons.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// A hold: its start and its reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// The start, in milliseconds since 1970. It identifies the hold.
    pub since: Timestamp,
    /// The reason, for operators.
    pub why: String,
}

impl Hold {
    /// Creates a hold from now on, by this machine's clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "for display only; no decision depends on it")]
    pub fn starting_now(why: impl Into<String>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { since: Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)), why: why.into() }
    }
}
