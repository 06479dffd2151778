//! Users, groups, delegations; and who is asking.

use super::Time;
use crate::auth::Role;
use schemars::JsonSchema;
use serde::Serialize;

/// A user.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct User {
    name: String,
    roles: Vec<Role>,
    /// The only one whose things they see.
    tenant: Option<String>,
    created_at: Time,
    created_by: String,
}

/// A user who was just made.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct UserMade {
    #[serde(flatten)]
    user: User,
    /// Shown this once.
    token: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// A group of users.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct Group {
    name: String,
    members: Vec<String>,
    created_at: Time,
    created_by: String,
}

/// Who decides for whom, and until when.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct Delegation {
    id: String,
    from: String,
    to: String,
    /// All if it names none.
    roles: Vec<String>,
    since: Time,
    until: Time,
    reason: String,
    tenant: Option<String>,
    created_at: Time,
    created_by: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    ended_by: Option<String>,
    /// `planned`, `in_force` or `over`.
    state: String,
}

/// Who is asking.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Me {
    pub(crate) name: String,
    pub(crate) roles: Vec<Role>,
    pub(crate) tenant: Option<String>,
    /// What they may do.
    pub(crate) may: Vec<&'static str>,
    /// The roles and groups as which they sit at approvals.
    pub(crate) seats: Vec<String>,
}
