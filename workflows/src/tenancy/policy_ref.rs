//! The reference to the policy version of a decision.

use serde::{Deserialize, Serialize};

/// Names one version of a policy, and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRef {
    /// The name.
    pub name: String,
    /// The version, from 1.
    pub version: u32,
    /// `sha256:` and the digest of its text.
    pub digest: String,
}
