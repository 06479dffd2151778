//! One model's share of a queue.

use serde::{Deserialize, Serialize};

/// One model's share of a queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlavorQuota {
    /// The model of the GPUs.
    pub model: String,
    /// GPUs that are the queue's own.
    pub nominal: u64,
    /// GPUs it may borrow beyond; without a limit when absent.
    pub borrowing_limit: Option<u64>,
    /// GPUs of its own that it lends; all of them when absent.
    pub lending_limit: Option<u64>,
}
