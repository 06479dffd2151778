//! A person from an identity provider.

use super::Role;
use serde::{Deserialize, Serialize};

/// A person from the identity provider, with roles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Person {
    /// `oidc:` and the value of the name claim.
    pub(crate) name: String,
    /// The roles; at least one.
    pub(crate) roles: Vec<Role>,
    /// The tenant to which the person is bound.
    pub(crate) tenant: Option<String>,
    /// The groups from the identity provider.
    pub(crate) groups: Vec<String>,
}
