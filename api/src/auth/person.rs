//! A person as an identity provider has named them.

use super::Role;
use serde::{Deserialize, Serialize};

/// Someone whom the provider has named, and what they may do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    /// `oidc:` and the claim that names them.
    pub(crate) name: String,
    /// What they may do; at least one.
    pub(crate) roles: Vec<Role>,
    /// The only tenant whose things they see.
    pub(crate) tenant: Option<String>,
    /// Their groups, as the provider said.
    pub(crate) groups: Vec<String>,
}
