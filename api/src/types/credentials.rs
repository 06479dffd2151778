//! Keys of clusters and tokens of users. What opens something is shown once, when it is drawn, and never again.

use super::{Span, Time};
use schemars::JsonSchema;
use serde::Serialize;

/// The key of a cluster, without what opens anything.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClusterKey {
    pub(crate) cluster: String,
    /// The tenant that holds it; `null` of a cluster that tenants share.
    pub(crate) tenant: Option<String>,
    /// Counts the keys that the cluster has had, from 1; 0 while none was drawn.
    pub(crate) version: u32,
    /// `in_force`, `revoked`, or `not_drawn`: nobody was handed one yet.
    pub(crate) state: &'static str,
    /// What it may be used for.
    pub(crate) scopes: Vec<&'static str>,
    #[schemars(with = "Time")]
    pub(crate) issued_at: String,
    /// Who issued it; `null` if an execution did.
    pub(crate) issued_by: Option<String>,
    /// How long ago that was.
    #[schemars(with = "Span")]
    pub(crate) age: String,
    /// The key before, if it still holds beside this one.
    pub(crate) earlier: Option<EarlierKey>,
    #[schemars(with = "Option<Time>")]
    pub(crate) revoked_at: Option<String>,
    /// Who revoked it; `null` if an execution did.
    pub(crate) revoked_by: Option<String>,
    /// Why.
    pub(crate) revoked_for: Option<String>,
}

/// A key that was followed by another and still holds.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EarlierKey {
    pub(crate) version: u32,
    /// Until when.
    #[schemars(with = "Time")]
    pub(crate) holds_until: String,
}

/// The key of a cluster, just drawn.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ClusterKeyIssued {
    #[serde(flatten)]
    pub(crate) of: ClusterKey,
    /// What its holder presents. Shown this once.
    pub(crate) key: String,
}

/// A token of a user, without what opens anything.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Token {
    /// Names it: it stands in the token, after `tn_`.
    pub(crate) id: String,
    /// What it is called, unique among the user's.
    pub(crate) name: String,
    pub(crate) user: String,
    /// `in_force` or `over`.
    pub(crate) state: &'static str,
    #[schemars(with = "Option<Time>")]
    pub(crate) created_at: Option<String>,
    pub(crate) created_by: Option<String>,
    /// `issued`: somebody else drew it and has seen it; `enrolled`: its user claimed it with a one-time code.
    pub(crate) claim: &'static str,
    /// When it ends by itself; `null` if it does not.
    #[schemars(with = "Option<Time>")]
    pub(crate) ends_at: Option<String>,
    /// The full hour in which it was used last; `null` if it was not, or not since that is written down.
    #[schemars(with = "Option<Time>")]
    pub(crate) last_used_at: Option<String>,
}

/// A one-time code, by which a user claims a token that nobody else has seen.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EnrolmentCode {
    pub(crate) user: String,
    /// Shown this once; `tenure login --enrol` takes it.
    pub(crate) code: String,
    /// Until when it may be used, once.
    #[schemars(with = "Time")]
    pub(crate) ends_at: String,
}

/// A token, just drawn.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct TokenIssued {
    #[serde(flatten)]
    pub(crate) of: Token,
    /// Shown this once.
    pub(crate) token: String,
}
