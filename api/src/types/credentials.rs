//! Keys of clusters and tokens of users. A secret is shown once, when it is created.

use super::{Span, Time};
use schemars::JsonSchema;
use serde::Serialize;

/// The key of a cluster, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClusterKey {
    pub(crate) cluster: String,
    /// The tenant that owns the cluster; `null` for a shared cluster.
    pub(crate) tenant: Option<String>,
    /// The number of the key, from 1; 0 before the first one.
    pub(crate) version: u32,
    /// `in_force`, `revoked`, or `not_drawn` (no key was issued yet).
    pub(crate) state: &'static str,
    /// The scopes of the key.
    pub(crate) scopes: Vec<&'static str>,
    #[schemars(with = "Time")]
    pub(crate) issued_at: String,
    /// The user who issued it; `null` for an execution.
    pub(crate) issued_by: Option<String>,
    /// The age of the key.
    #[schemars(with = "Span")]
    pub(crate) age: String,
    /// The previous key, if it is still valid.
    pub(crate) earlier: Option<EarlierKey>,
    #[schemars(with = "Option<Time>")]
    pub(crate) revoked_at: Option<String>,
    /// The user who revoked it; `null` for an execution.
    pub(crate) revoked_by: Option<String>,
    /// The reason.
    pub(crate) revoked_for: Option<String>,
}

/// A previous key that is still valid.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EarlierKey {
    pub(crate) version: u32,
    /// The expiry.
    #[schemars(with = "Time")]
    pub(crate) holds_until: String,
}

/// A new cluster key.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClusterKeyIssued {
    #[serde(flatten)]
    pub(crate) of: ClusterKey,
    /// The secret of the key; shown only once.
    pub(crate) key: String,
}

/// A token of a user, without its secret.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Token {
    /// The id, which follows `tn_` in the token.
    pub(crate) id: String,
    /// The name, unique per user.
    pub(crate) name: String,
    pub(crate) user: String,
    /// `in_force` or `over`.
    pub(crate) state: &'static str,
    #[schemars(with = "Option<Time>")]
    pub(crate) created_at: Option<String>,
    pub(crate) created_by: Option<String>,
    /// `issued`: another person created it and has seen it; `enrolled`: the user claimed it with a one-time code.
    pub(crate) claim: &'static str,
    /// The expiry; `null` without one.
    #[schemars(with = "Option<Time>")]
    pub(crate) ends_at: Option<String>,
    /// The hour of the last use; `null` if it was not used, or not recorded.
    #[schemars(with = "Option<Time>")]
    pub(crate) last_used_at: Option<String>,
}

/// A one-time code, with which a user claims a token that no other person has seen.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnrolmentCode {
    pub(crate) user: String,
    /// The code for `tenure login --enrol`; shown only once.
    pub(crate) code: String,
    /// The expiry of the code, which is valid once.
    #[schemars(with = "Time")]
    pub(crate) ends_at: String,
}

/// A new token.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TokenIssued {
    #[serde(flatten)]
    pub(crate) of: Token,
    /// The token; shown only once.
    pub(crate) token: String,
}
