//! The class by which pods of a service level are ranked.

use super::Tier;
use serde::{Deserialize, Serialize};

/// The rank of a service level in a cluster, as pods name it.
///
/// The API server never changes a class's value, so the value is part of the name: a policy that ranks a level otherwise has
/// another class, and pods that were placed by the old one keep theirs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PriorityClass {
    /// Its name: `tenure-research-100`.
    pub name: String,
    /// Its value: higher goes first.
    pub value: u32,
}

impl PriorityClass {
    /// The class of a service level to which policy gives this value.
    #[must_use]
    pub fn new(tier: Tier, value: u32) -> Self {
        Self { name: format!("tenure-{}-{value}", <&str>::from(tier)), value }
    }
}
