//! The PriorityClass of a tier.

use super::Tier;
use serde::{Deserialize, Serialize};

/// The priority of a tier in a cluster, as pods name it.
///
/// The API server never changes a class's value, so the value is part of the name. If a policy changes the value, it uses another class, and existing pods keep
/// theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityClass {
    /// The name: `tenure-research-100`.
    pub name: String,
    /// The value. A higher value is more important.
    pub value: u32,
}

impl PriorityClass {
    /// Creates the class of a tier with this value.
    #[must_use]
    pub fn new(tier: Tier, value: u32) -> Self {
        Self { name: format!("tenure-{}-{value}", <&str>::from(tier)), value }
    }
}
