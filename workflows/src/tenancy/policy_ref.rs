//! Which version of a policy something was decided by.

use serde::{Deserialize, Serialize};

/// Names one version of a policy, and its content.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PolicyRef {
    /// Its name.
    pub name: String,
    /// Its version, from 1.
    pub version: u32,
    /// `sha256:` and the digest of its text.
    pub digest: String,
}
