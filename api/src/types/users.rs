//! Users, groups, delegations; and who is asking.

use super::Time;
use crate::auth::{Role, UserKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A user.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct User {
    name: String,
    roles: Vec<Role>,
    /// The only one whose things they see.
    tenant: Option<String>,
    /// A service decides nothing that takes people.
    kind: UserKind,
    created_at: Time,
    created_by: String,
    /// When they last claimed a credential of their own, by a one-time code.
    #[schemars(skip_serializing_if = "Option::is_none")]
    claimed_at: Option<Time>,
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
    /// When the token or session that was sent ends by itself; `null` if it does not.
    #[schemars(with = "Option<Time>")]
    pub(crate) ends_at: Option<String>,
}

/// How people sign in.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LoginOffered {
    /// With a token that an admin gave: always.
    pub(crate) token: bool,
    /// Through an identity provider, if there is one.
    pub(crate) oidc: Option<Provider>,
}

/// The identity provider.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(rename = "IdentityProvider")]
pub(crate) struct Provider {
    #[schemars(with = "String")]
    pub(crate) issuer: Value,
    #[schemars(with = "String")]
    pub(crate) client_id: Value,
    #[schemars(with = "Option<String>")]
    pub(crate) device_client_id: Value,
    pub(crate) scopes: Value,
    /// Whether browsers can be led to it.
    pub(crate) browser: bool,
}

/// A session.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct Session {
    id: String,
    user: String,
    began_at: Time,
    ends_at: Time,
    /// Their groups, as the provider said then.
    groups: Vec<String>,
}

/// A session that has just begun.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes what is kept in the books")]
pub(crate) struct SessionBegun {
    #[serde(flatten)]
    session: Session,
    /// Shown this once.
    token: String,
    roles: Vec<Role>,
    tenant: Option<String>,
}
