//! `/v1/clusters/{id}/key`: shows, rotates and revokes the key of a cluster.
//!
//! The request that creates a secret shows it once. Only its hash is stored.

use crate::{
    auth::{Caller, Verb},
    http::{
        extract::{JsonBody, page::document},
        middleware::idempotency::{ContainsSecret, RequestKey, record_secret_shown},
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::{
        credentials::{self as shown, ClusterKeyIssued, EarlierKey},
        problems::Fault,
    },
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    response::{IntoResponse as _, Response},
};
use engine::{ActionError, DAY, HOUR, with_reason};
use program::{encoding::rfc3339::format_time, token::Token};
use schemars::JsonSchema;
use serde::Deserialize;
use std::time::Duration;
use store::Timestamp;
use workflows::{
    ledger::{KeySuccession, revoke_cluster_key, rotate_cluster_key, undrawn_cluster_key},
    policy::duration,
    tenancy::{Cluster, ClusterId, ClusterKey},
};

/// How long the previous key stays valid by default: time to install the next one.
const OVERLAP: Duration = HOUR;
/// The maximum overlap of two keys, in days.
const LONGEST: u32 = 7;

pub(in crate::http) fn routes() -> Vec<Route> {
    let manage = Access::Staff(Verb::ManageClusterKeys);
    vec![
        Route::get(
            "/v1/clusters/{id}/key",
            Access::Staff(Verb::ReadFleet),
            show,
            doc(
                "showClusterKey",
                "Shows the key of a cluster: when it was issued, by whom, and whether a previous key is still valid.",
            )
            .says::<shown::ClusterKey>(200),
        ),
        Route::post(
            "/v1/clusters/{id}/key:rotate",
            manage,
            rotate,
            doc(
                "rotateClusterKey",
                "Issues the next key of a cluster and shows it once. The previous key stays valid for a while.",
            )
            .says::<ClusterKeyIssued>(200)
            .may(&[ProblemCode::KeysOverlap, ProblemCode::KeyOrphaned, ProblemCode::SecretShown]),
        ),
        Route::post(
            "/v1/clusters/{id}/key:revoke",
            manage,
            revoke,
            doc("revokeClusterKey", "Revokes the key of a cluster now, and a previous key that is still valid.")
                .says::<shown::ClusterKey>(200)
                .may(&[ProblemCode::ReasonMissing]),
        ),
    ]
}

fn seen(key: &ClusterKey, now: Timestamp) -> shown::ClusterKey {
    let state = match (&key.revoked_at, &key.hash) {
        (Some(_), _) => "revoked",
        (None, Some(_)) => "in_force",
        (None, None) => "not_drawn",
    };
    let earlier = key.overlapping_key(now);
    shown::ClusterKey {
        cluster: key.cluster.to_string(),
        tenant: key.tenant.as_ref().map(ToString::to_string),
        version: key.version,
        state,
        scopes: key.scopes.iter().map(|scope| scope.name()).collect(),
        issued_at: format_time(key.created_at),
        issued_by: key.issued_by.clone(),
        age: duration::show(now.since(key.created_at)),
        earlier: earlier
            .map(|earlier| EarlierKey { version: earlier.version, holds_until: format_time(earlier.until) }),
        revoked_at: key.revoked_at.map(format_time),
        revoked_by: key.revoked_by.clone(),
        revoked_for: key.revoked_for.clone(),
    }
}

/// Returns the key of a cluster.
async fn found(app: &ServerState, id: &str) -> Result<(ClusterId, ClusterKey), Problem> {
    let key = match document::<ClusterKey>(app, id).await? {
        Some(key) => Some(key),
        // A shared cluster has a key from its registration, even before its first secret was created.
        None => document::<Cluster>(app, id).await?.as_ref().and_then(undrawn_cluster_key),
    };
    let key = key.ok_or_else(|| Problem::not_found("key of cluster", id))?;
    Ok((key.cluster.clone(), key))
}

async fn show(
    State(app): State<SharedState>,
    Path(id): Path<String>,
) -> Result<Json<shown::ClusterKey>, Problem> {
    let (_, key) = found(&app, &id).await?;
    Ok(Json(seen(&key, app.engine.clock().now())))
}

/// How the next key replaces the present one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClusterKeyRotation")]
struct Rotation {
    /// How long the previous key stays valid; `0s` ends it now. Default: one hour. Maximum: seven days.
    #[schemars(with = "Option<crate::types::Span>")]
    overlap: Option<String>,
    /// The newest key was never delivered: it ends now, and the previous key stays valid.
    #[serde(default)]
    lost: bool,
    /// The reason, for the audit.
    #[serde(default)]
    reason: String,
}

impl Rotation {
    fn overlap(&self) -> Result<Duration, Problem> {
        let wrong = |why: String| {
            let fault = Fault { pointer: "/overlap".into(), message: why.clone(), line: None, column: None };
            Problem::new(ProblemCode::DocumentInvalid, format!("overlap: {why}")).at(vec![fault])
        };
        let Some(text) = self.overlap.as_deref() else { return Ok(OVERLAP) };
        let span = if text == "0" { Some(Duration::ZERO) } else { duration::parse(text) };
        let span =
            span.ok_or_else(|| wrong(format!("{text:?} is not a duration; write it like `30m` or `1d`")))?;
        if span > LONGEST * DAY {
            return Err(wrong(format!("the previous key may stay valid for {LONGEST} days at most")));
        }
        Ok(span)
    }
}

async fn rotate(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Extension(once): Extension<RequestKey>,
    Path(id): Path<String>,
    JsonBody(wanted): JsonBody<Rotation>,
) -> Result<Response, Problem> {
    let overlap = wanted.overlap()?;
    let (cluster, _) = found(&app, &id).await?;
    let none = |e| Problem::of_action(ActionError::transient("token.no_randomness", e));
    let secret = Token::draw().map_err(none)?;
    let next = KeySuccession { hash: secret.hash(), overlap, lost: wanted.lost, by: caller.name.clone() };
    let kept = once.shown(app.engine.clock().now());
    let issued = app.engine.transact(true, |view| {
        record_secret_shown(view, kept.as_ref())?;
        rotate_cluster_key(view, &cluster, &next)
    });
    let key = with_reason(&wanted.reason, issued).await?;
    tracing::info!(%cluster, version = key.version, by = caller.name, "a cluster key was rotated");
    let of = seen(&key, app.engine.clock().now());
    let mut answer = Json(ClusterKeyIssued { of, key: secret.reveal() }).into_response();
    answer.extensions_mut().insert(ContainsSecret);
    Ok(answer)
}

/// The reason for revoking a key.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "ClusterKeyRevocation")]
struct Revocation {
    #[serde(default)]
    reason: String,
}

async fn revoke(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
    JsonBody(why): JsonBody<Revocation>,
) -> Result<Json<shown::ClusterKey>, Problem> {
    let reason = why.reason.trim();
    if reason.is_empty() {
        return Err(Problem::new(ProblemCode::ReasonMissing, "reason: give a reason for the audit"));
    }
    let (cluster, _) = found(&app, &id).await?;
    let revoked = app.engine.transact(true, |view| revoke_cluster_key(view, &cluster, &caller.name, reason));
    let key = with_reason(reason, revoked).await?;
    tracing::info!(%cluster, version = key.version, by = caller.name, reason, "a cluster key was revoked");
    Ok(Json(seen(&key, app.engine.clock().now())))
}
