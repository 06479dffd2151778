//! The quota of a queue for one model.

use serde::{Deserialize, Serialize};

/// The quota of a queue for one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlavorQuota {
    /// The model of the GPUs.
    pub model: String,
    /// The profile of their slices; whole GPUs when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The queue's own GPUs.
    pub nominal: u64,
    /// GPUs that it may borrow beyond; unlimited if absent.
    pub borrowing_limit: Option<u64>,
    /// Own GPUs that it lends; all of them if absent.
    pub lending_limit: Option<u64>,
}
