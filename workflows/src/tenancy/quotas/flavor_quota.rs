//! One model's share of a queue.

use serde::{Deserialize, Serialize};

/// One model's share of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlavorQuota {
    /// The model of the GPUs.
    pub model: String,
    /// The profile of their slices; whole GPUs when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// GPUs that are the queue's own.
    pub nominal: u64,
    /// GPUs it may borrow beyond; without a limit when absent.
    pub borrowing_limit: Option<u64>,
    /// GPUs of its own that it lends; all of them when absent.
    pub lending_limit: Option<u64>,
}
