//! Users, groups, delegations, and the caller.

use super::Time;
use crate::auth::{Role, UserKind};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

/// A user.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes documents of the ledger")]
pub(crate) struct User {
    name: String,
    roles: Vec<Role>,
    /// The only tenant that the user may see.
    tenant: Option<String>,
    /// A service account cannot vote on approvals.
    kind: UserKind,
    created_at: Time,
    created_by: String,
    /// The last time that the user claimed a credential with a one-time code.
    #[schemars(skip_serializing_if = "Option::is_none")]
    claimed_at: Option<Time>,
}

/// A new user.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes documents of the ledger")]
pub(crate) struct UserMade {
    #[serde(flatten)]
    user: User,
    /// The token; shown only once.
    token: String,
    #[schemars(skip_serializing_if = "Option::is_none")]
    warning: Option<String>,
}

/// A group of users.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes documents of the ledger")]
pub(crate) struct Group {
    name: String,
    members: Vec<String>,
    created_at: Time,
    created_by: String,
}

/// A delegation of votes.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes documents of the ledger")]
pub(crate) struct Delegation {
    id: String,
    from: String,
    to: String,
    /// The delegated roles; all if empty.
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

/// The caller.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Me {
    pub(crate) name: String,
    pub(crate) roles: Vec<Role>,
    pub(crate) tenant: Option<String>,
    /// The permissions.
    pub(crate) may: Vec<&'static str>,
    /// The roles and groups whose seats the caller may take at approvals.
    pub(crate) seats: Vec<String>,
    /// The expiry of the token or session; `null` without one.
    #[schemars(with = "Option<Time>")]
    pub(crate) ends_at: Option<String>,
}

/// The sign-in methods.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct LoginOffered {
    /// Sign-in with a token from an admin; always true.
    pub(crate) token: bool,
    /// Sign-in with an identity provider, if configured.
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
    /// True if browsers can be redirected to it.
    pub(crate) browser: bool,
}

/// A session.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes documents of the ledger")]
pub(crate) struct Session {
    id: String,
    user: String,
    began_at: Time,
    ends_at: Time,
    /// The groups from the identity provider, at the sign-in.
    groups: Vec<String>,
}

/// A new session.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "describes documents of the ledger")]
pub(crate) struct SessionBegun {
    #[serde(flatten)]
    session: Session,
    /// The token; shown only once.
    token: String,
    roles: Vec<Role>,
    tenant: Option<String>,
}
