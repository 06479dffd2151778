//! Who may do what, and by which policies.

use crate::auth::Role;
use schemars::JsonSchema;
use serde::Serialize;

/// Whether somebody may do something.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Explained {
    pub(crate) allows: bool,
    /// In words.
    pub(crate) why: String,
    /// The ids of the policies that decided; none where none permits it.
    pub(crate) policies: Vec<String>,
    /// The version of all policies in force.
    pub(crate) policies_version: String,
    pub(crate) action: String,
    pub(crate) roles: Vec<Role>,
    /// The only one whose things they meet.
    pub(crate) tenant: Option<String>,
    /// Where it is refused: the roles of which one alone would do.
    pub(crate) may: Vec<Role>,
}

/// Policies that a house had in force.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Kept {
    /// Their version: SHA-256 of all policies, the shipped ones with them.
    pub(crate) id: String,
    /// The file that they came from.
    pub(crate) file: String,
    /// When they first came into force.
    pub(crate) since: String,
    pub(crate) in_force: bool,
}

/// Policies with their text.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Policies {
    /// Their version: SHA-256 of all policies, the shipped ones with them.
    pub(crate) id: String,
    pub(crate) in_force: bool,
    /// Those that are shipped with the program that answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) shipped: Option<String>,
    /// The house's own; empty where there are none.
    pub(crate) text: String,
    /// The file that they came from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) file: Option<String>,
    /// When they first came into force.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) since: Option<String>,
}
