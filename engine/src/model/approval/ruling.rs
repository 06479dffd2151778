//! How a ballot ended.

use serde::{Deserialize, Serialize};

/// How a ballot ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ruling {
    /// Every seat is filled.
    Granted,
    /// A person refused.
    Refused,
    /// The deadline passed. An expired approval never counts as granted.
    Expired,
}

impl Ruling {
    /// Returns the ruling's name, as lists show it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Granted => "granted",
            Self::Refused => "refused",
            Self::Expired => "expired",
        }
    }
}
