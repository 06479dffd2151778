//! `/v1/users/{name}/tokens`: tokens of a user. The request that creates a secret shows it once.

use crate::{
    auth::{Caller, KeptToken, NewToken, User, issue_token, remove_token, rotate_token, tokens_of},
    config::admin_file,
    http::{
        extract::{
            JsonBody,
            page::{ListPage, document},
        },
        middleware::idempotency::{ContainsSecret, RequestKey, record_secret_shown},
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::{ServerState, SharedState},
    types::credentials::{Token as Shown, TokenIssued},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use program::encoding::rfc3339::format_time;
use store::Timestamp;

/// The route that lists tokens.
pub(in crate::http) fn list(access: Access) -> Route {
    let doc = doc("listTokens", "Lists the tokens of a user with their names, expiry and last use.");
    Route::get("/v1/users/{name}/tokens", access, all, doc.lists::<Shown>())
}

/// The route that issues a token.
pub(in crate::http) fn issue(access: Access) -> Route {
    let doc = doc("issueToken", "Issues another token for a user, and shows it once.")
        .says::<TokenIssued>(201)
        .may(&[ProblemCode::TokenExists, ProblemCode::SecretShown]);
    Route::post("/v1/users/{name}:token", access, drawn, doc)
}

/// The route that rotates a token.
pub(in crate::http) fn rotate(access: Access) -> Route {
    let doc = doc(
        "rotateToken",
        "Replaces a token and shows the new one once. The old token is invalid from then on.",
    )
    .says::<TokenIssued>(200)
    .may(&[ProblemCode::SecretShown]);
    Route::post("/v1/users/{name}/tokens/{id}:rotate", access, rotated, doc)
}

/// The route that revokes a token.
pub(in crate::http) fn remove(access: Access) -> Route {
    let doc = doc("removeToken", "Revokes a token, by its id or name.").nothing();
    Route::delete("/v1/users/{name}/tokens/{id}", access, removed, doc)
}

pub(super) fn seen(kept: &KeptToken, now: Timestamp) -> Shown {
    Shown {
        id: kept.id.clone(),
        name: kept.called().to_owned(),
        user: kept.user.clone(),
        state: if kept.is_over(now) { "over" } else { "in_force" },
        created_at: kept.created_at.map(format_time),
        created_by: kept.created_by.clone(),
        claim: kept.claim.name(),
        ends_at: kept.ends_at.map(format_time),
        last_used_at: kept.used_at.map(format_time),
    }
}

async fn user(app: &ServerState, name: &str) -> Result<User, Problem> {
    document::<User>(app, name).await?.ok_or_else(|| Problem::not_found("user", name))
}

async fn all(
    State(app): State<SharedState>,
    Path(name): Path<String>,
) -> Result<Json<ListPage<Shown>>, Problem> {
    let user = user(&app, &name).await?;
    let now = app.engine.clock().now();
    let found = tokens_of(&**app.engine.store(), &user).await?;
    Ok(Json(ListPage::new(found.iter().map(|kept| seen(kept, now)).collect(), None)))
}

async fn drawn(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Extension(once): Extension<RequestKey>,
    Path(name): Path<String>,
    JsonBody(new): JsonBody<NewToken>,
) -> Result<Response, Problem> {
    let now = app.engine.clock().now();
    let kept = once.shown(now);
    let also = |view: &mut engine::View| record_secret_shown(view, kept.as_ref());
    let issued = issue_token(&app.engine, &name, &new, &caller.act(now), also).await?;
    let (kept, token) = issued.ok_or_else(|| Problem::not_found("user", &name))?;
    tracing::info!(user = name, token = kept.id, by = caller.name, "token issued");
    let body = TokenIssued { of: seen(&kept, now), token: token.reveal() };
    let mut answer = (StatusCode::CREATED, Json(body)).into_response();
    answer.extensions_mut().insert(ContainsSecret);
    Ok(answer)
}

async fn removed(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path((name, id)): Path<(String, String)>,
) -> Result<StatusCode, Problem> {
    if remove_token(&app.engine, &name, &id, app.provider.is_some()).await? {
        tracing::info!(user = name, token = id, by = caller.name, "token removed");
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::not_found("token", &format!("{id} of user {name}")))
}

async fn rotated(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Extension(once): Extension<RequestKey>,
    Path((name, id)): Path<(String, String)>,
) -> Result<Response, Problem> {
    let now = app.engine.clock().now();
    let kept = once.shown(now);
    let also = |view: &mut engine::View| record_secret_shown(view, kept.as_ref());
    let file = admin_file(&app.config.data);
    let issued = rotate_token(&app.engine, (&name, &id), &caller.act(now), &file, also).await?;
    let (kept, token) = issued.ok_or_else(|| Problem::not_found("token", &format!("{id} of user {name}")))?;
    tracing::info!(user = name, token = kept.id, by = caller.name, "token rotated");
    let body = TokenIssued { of: seen(&kept, now), token: token.reveal() };
    let mut answer = Json(body).into_response();
    answer.extensions_mut().insert(ContainsSecret);
    Ok(answer)
}
