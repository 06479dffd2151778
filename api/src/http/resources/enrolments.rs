//! `/v1/users/{name}:enrol` and `/v1/enrolments:claim`: one-time codes with which a user gets a token that no other person has seen.
//!
//! Claiming needs no authentication, because the code is the only credential. A wrong code gets the same answer and the same delay as a failed sign-in.

use crate::{
    auth::{self, Caller, NewEnrolment},
    http::{
        extract::JsonBody,
        middleware::idempotency::{ContainsSecret, RequestKey, record_secret_shown},
        problem::{Problem, code::ProblemCode},
        resources::tokens,
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types::credentials::{EnrolmentCode, TokenIssued},
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use engine::{AuditContext, with_actor};
use program::encoding::rfc3339::format_time;
use schemars::JsonSchema;
use serde::Deserialize;

/// The route that creates a code.
pub(in crate::http) fn enrol(access: Access) -> Route {
    let doc = doc(
        "enrolUser",
        "Creates a one-time code for a user, and shows it once. The user exchanges it for a token.",
    )
    .says::<EnrolmentCode>(201)
    .may(&[ProblemCode::SecretShown]);
    Route::post("/v1/users/{name}:enrol", access, enrolled, doc)
}

/// The route that accepts a code.
pub(in crate::http) fn claim() -> Route {
    let doc = doc(
        "claimEnrolment",
        "Exchanges a one-time code for a new token, and shows the token once. Ends the user's other tokens.",
    )
    .says::<TokenIssued>(201)
    .may(&[ProblemCode::LoginRefused, ProblemCode::StoreUnavailable]);
    Route::post("/v1/enrolments:claim", Access::Open, claimed, doc)
}

async fn enrolled(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Extension(once): Extension<RequestKey>,
    Path(name): Path<String>,
    JsonBody(new): JsonBody<NewEnrolment>,
) -> Result<Response, Problem> {
    let now = app.engine.clock().now();
    let kept = once.shown(now);
    let also = |view: &mut engine::View| record_secret_shown(view, kept.as_ref());
    let made = auth::enrol(&app.engine, &name, &new, caller.act(now), also).await?;
    let (code, until) = made.ok_or_else(|| Problem::not_found("user", &name))?;
    tracing::info!(user = name, by = caller.name, "enrolment code created");
    let body = EnrolmentCode { user: name, code, ends_at: format_time(until) };
    let mut answer = (StatusCode::CREATED, Json(body)).into_response();
    answer.extensions_mut().insert(ContainsSecret);
    Ok(answer)
}

/// The credential of a claim.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Claim {
    /// The one-time code.
    code: String,
}

async fn claimed(
    State(app): State<SharedState>,
    JsonBody(proof): JsonBody<Claim>,
) -> Result<Response, Problem> {
    let refused = || {
        let detail = "the code is unknown, used or expired; ask an admin for a new one: `tenure user enrol`";
        Problem::new(ProblemCode::LoginRefused, detail)
    };
    let by = auth::enrolling(&app.engine, &proof.code).await?.ok_or_else(refused)?;
    let at = "/v1/enrolments:claim";
    let behalf = AuditContext { by, operation: format!("POST {at}"), path: at.into() };
    let claimed = with_actor(behalf, auth::claim(&app.engine, &proof.code)).await?;
    let (kept, token) = claimed.ok_or_else(refused)?;
    tracing::info!(user = kept.user, token = kept.id, "enrolled");
    let now = app.engine.clock().now();
    let body = TokenIssued { of: tokens::seen(&kept, now), token: token.reveal() };
    let mut answer = (StatusCode::CREATED, Json(body)).into_response();
    answer.extensions_mut().insert(ContainsSecret);
    Ok(answer)
}
