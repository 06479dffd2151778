//! Permissions, and the policies that grant them.

use crate::auth::Role;
use schemars::JsonSchema;
use serde::Serialize;

/// The result of a permission check.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Explained {
    pub(crate) allows: bool,
    /// The reason, in words.
    pub(crate) why: String,
    /// The ids of the deciding policies; empty if no policy permits the action.
    pub(crate) policies: Vec<String>,
    /// The version of all policies in force.
    pub(crate) policies_version: String,
    pub(crate) action: String,
    pub(crate) roles: Vec<Role>,
    /// The only tenant that the caller may see.
    pub(crate) tenant: Option<String>,
    /// If refused: the roles of which one would suffice.
    pub(crate) may: Vec<Role>,
}

/// A version of the operator's policies.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Kept {
    /// The version: SHA-256 of all policies, including the built-in ones.
    pub(crate) id: String,
    /// The source file.
    pub(crate) file: String,
    /// The time when they first took effect.
    pub(crate) since: String,
    pub(crate) in_force: bool,
}

/// Policies with their text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Policies {
    /// The version: SHA-256 of all policies, including the built-in ones.
    pub(crate) id: String,
    pub(crate) in_force: bool,
    /// The built-in policies of the program that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shipped: Option<String>,
    /// The operator's policies; empty if there are none.
    pub(crate) text: String,
    /// The source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    /// The time when they first took effect.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
}
