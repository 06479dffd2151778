//! A store that hands out no work until somebody lets it go. ADR 0015 has the reasons.

use crate::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::{SystemTime, UNIX_EPOCH};

/// Since when and why a store hands out no work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hold {
    /// Since when, in milliseconds of the epoch. Names this hold.
    pub since: Timestamp,
    /// What has happened, for those who look into it.
    pub why: String,
}

impl Hold {
    /// From now on, by this machine's clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "for people to read; nothing is decided by it")]
    pub fn starting_now(why: impl Into<String>) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { since: Timestamp(u64::try_from(since.as_millis()).unwrap_or(u64::MAX)), why: why.into() }
    }
}
