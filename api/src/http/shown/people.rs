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

/// How people sign in.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the settings say")]
pub(crate) struct Login {
    /// Whether tokens of users are taken.
    token: bool,
    /// The identity provider, if there is one.
    oidc: Option<Oidc>,
}

/// An identity provider.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what the settings say")]
pub(crate) struct Oidc {
    issuer: String,
    client_id: String,
    /// The client of the command line.
    device_client_id: String,
    scopes: String,
    /// Whether browsers can sign in.
    browser: bool,
}

/// A session.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct Session {
    id: String,
    user: String,
    began_at: Time,
    ends_at: Time,
    /// As the provider named them.
    groups: Vec<String>,
}

/// A session that has just begun.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct SignedIn {
    #[serde(flatten)]
    session: Session,
    /// Shown this once.
    token: String,
    roles: Vec<Role>,
    /// The only one whose things they see.
    tenant: Option<String>,
}
