//! `/login` and `/v1/sessions`: sign-in with an identity provider (`docs/adr/0018`).
//!
//! These routes need no authentication, because they provide it. The identity provider verifies every credential that they accept.

use crate::{
    auth::{self, Caller, Session, Verb, begin_session, redeem_sign_in, store_sign_in},
    http::{
        extract::{
            JsonBody, QueryParams,
            page::{ListPage, Paging, documents},
        },
        middleware::idempotency::ContainsSecret,
        problem::{Problem, code::ProblemCode, denial::Requester},
        route::{Access, Route},
        route_doc::doc,
    },
    oidc::{Attempts, Provider, SignInError},
    state::{ServerState, SharedState},
    types::{
        mapping,
        users::{self, LoginOffered, SessionBegun},
    },
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Redirect, Response},
};
use engine::{AuditContext, Entity, with_actor};
use program::token::{Token, random};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

pub(in crate::http) fn routes() -> Vec<Route> {
    let (read, manage) = (Access::Staff(Verb::ReadUsers), Access::Staff(Verb::ManageUsers));
    vec![
        Route::get(
            "/v1/login",
            Access::Open,
            offered,
            doc("showLogin", "Lists the sign-in methods.").says::<LoginOffered>(200),
        ),
        Route::get(
            "/login",
            Access::Open,
            leave,
            doc("leaveToSignIn", "Redirects a browser to the identity provider.").moves().may(LOGIN),
        ),
        Route::get(
            "/login/callback",
            Access::Open,
            callback,
            doc(
                "returnSignedIn",
                "Receives the browser from the identity provider, and redirects it to the console.",
            )
            .moves(),
        ),
        Route::post(
            "/v1/sessions",
            Access::Open,
            sign_in,
            doc("signIn", "Exchanges the proof of a sign-in for a token, and shows the token once.")
                .says::<SessionBegun>(201)
                .may(LOGIN),
        ),
        Route::get(
            "/v1/sessions",
            read,
            list,
            doc("listSessions", "Lists sessions.").lists::<users::Session>(),
        ),
        // Every authenticated caller may use this.
        Route::delete(
            "/v1/sessions/mine",
            Access::Tenant(Verb::ReadWorkflows),
            sign_out,
            doc("signOut", "Ends the caller's own session.").nothing().may(&[ProblemCode::NotFound]),
        ),
        Route::delete("/v1/sessions/{id}", manage, end, doc("endSession", "Ends a session.").nothing()),
    ]
}

/// Problems of a sign-in.
const LOGIN: &[ProblemCode] = &[
    ProblemCode::LoginOff,
    ProblemCode::LoginRefused,
    ProblemCode::LoginNoRole,
    ProblemCode::LoginUnavailable,
    ProblemCode::StoreUnavailable,
];

/// The page of the console that completes the sign-in. Browsers never send the part after `#` to a server.
const CONSOLE: &str = "/#/signed-in";

impl From<SignInError> for Problem {
    fn from(unopened: SignInError) -> Self {
        let code = match &unopened {
            SignInError::Off(_) => ProblemCode::LoginOff,
            SignInError::Unavailable(_) => ProblemCode::LoginUnavailable,
            SignInError::Refused(_) => ProblemCode::LoginRefused,
            SignInError::NoRole { .. } => ProblemCode::LoginNoRole,
        };
        let problem = Self::new(code, unopened.to_string());
        match unopened {
            SignInError::NoRole { name, .. } => problem.to(Requester::named(name)),
            SignInError::Off(_) | SignInError::Unavailable(_) | SignInError::Refused(_) => problem,
        }
    }
}

fn provider(app: &ServerState) -> Result<&Provider, SignInError> {
    let off = || SignInError::Off("no identity provider is configured (`oidc.issuer`)".into());
    app.provider.as_ref().ok_or_else(off)
}

/// Returns the sign-in methods, without authentication.
async fn offered(State(app): State<SharedState>) -> Json<LoginOffered> {
    let Some(provider) = &app.provider else { return Json(LoginOffered { token: true, oidc: None }) };
    let settings = provider.settings();
    let oidc = users::Provider {
        issuer: json!(settings.issuer),
        client_id: json!(settings.client_id),
        device_client_id: json!(settings.device_client()),
        scopes: json!(settings.scopes),
        browser: !settings.url.is_empty(),
    };
    Json(LoginOffered { token: true, oidc: Some(oidc) })
}

/// The key that signs sign-in attempts. Servers of one store share it, so any of them can complete an attempt.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SignInKey {
    key: String,
}

impl Entity for SignInKey {
    const COLLECTION: &'static str = "shared_keys";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        "sign-in".into()
    }
}

async fn attempts(app: &ServerState) -> Result<Attempts, Problem> {
    let new = drawn::<32>()?;
    let new = SignInKey { key: program::encoding::hex::encode(&new) };
    let key = app.engine.transact(true, |view| match view.get::<SignInKey>(&new.id())? {
        Some(key) => Ok(key),
        None => view.put(&new).map(|()| new.clone()),
    });
    Ok(Attempts::new(key.await?.key.as_bytes()))
}

fn drawn<const N: usize>() -> Result<[u8; N], Problem> {
    random().map_err(|error| {
        Problem::new(ProblemCode::Internal, format!("the system's random number generator failed: {error}"))
    })
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Leaving")]
struct LoginParams {
    /// The SHA-256 of the verifier that the browser tab keeps, as base64url without padding: 43 characters.
    challenge: String,
}

async fn leave(
    State(app): State<SharedState>,
    QueryParams(leaving): QueryParams<LoginParams>,
) -> Result<Response, Problem> {
    let is_one = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if leaving.challenge.len() != 43 || !leaving.challenge.chars().all(is_one) {
        let detail = "challenge: send the SHA-256 of the tab's verifier, as base64url without padding";
        return Err(Problem::new(ProblemCode::QueryInvalid, detail));
    }
    let provider = provider(&app)?;
    let now = app.engine.clock().now();
    let attempt = attempts(&app).await?.begin(&drawn()?, &leaving.challenge, now);
    let url = provider.leave(&attempt, now).await?;
    Ok(unkept(Redirect::to(url.as_str()).into_response()))
}

/// Prevents caches and referrers from keeping a URL with a code.
fn unkept(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    headers.insert(header::CACHE_CONTROL, header::HeaderValue::from_static("no-store"));
    headers.insert(header::REFERRER_POLICY, header::HeaderValue::from_static("no-referrer"));
    answer
}

#[derive(Debug, Deserialize, JsonSchema)]
#[schemars(rename = "Coming")]
struct CallbackParams {
    state: Option<String>,
    code: Option<String>,
    error: Option<String>,
    error_description: Option<String>,
}

/// Redirects errors to the console, which shows them to the user.
async fn callback(
    State(app): State<SharedState>,
    QueryParams(coming): QueryParams<CallbackParams>,
) -> Response {
    let (query, refused) = match returned(&app, coming).await {
        Ok(code) => ([("code", code)], None),
        Err(problem) => ([("problem", problem.detail().to_owned())], problem.refusal()),
    };
    let query = reqwest::Url::parse_with_params("http://console.invalid/", &query);
    let query = query.ok().and_then(|url| url.query().map(ToOwned::to_owned)).unwrap_or_default();
    let mut answer = unkept(Redirect::to(&format!("{CONSOLE}?{query}")).into_response());
    if let Some(refused) = refused {
        answer.extensions_mut().insert(refused);
    }
    answer
}

async fn returned(app: &ServerState, coming: CallbackParams) -> Result<String, Problem> {
    let provider = provider(app)?;
    let now = app.engine.clock().now();
    let state = coming.state.unwrap_or_default();
    let attempt = attempts(app).await?.end(&state, now)?;
    if let Some(error) = coming.error {
        let said = coming.error_description.unwrap_or_default();
        return Err(SignInError::Refused(
            format!("the identity provider refused: {error} {said}").trim().to_owned(),
        )
        .into());
    }
    let Some(code) = coming.code else {
        return Err(
            SignInError::Refused("the identity provider sent neither a code nor an error".into()).into()
        );
    };
    let person = provider.come_back(&code, &attempt, now).await?;
    let name = person.name.clone();
    let behalf = on(&name, "GET /login/callback");
    Ok(with_actor(behalf, store_sign_in(&app.engine, person, attempt.challenge)).await?)
}

fn on(name: &str, asked: &str) -> AuditContext {
    let at = asked.split(' ').next_back().unwrap_or_default();
    AuditContext { by: name.into(), operation: asked.into(), path: at.into() }
}

/// The proof of a sign-in.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Proof")]
struct SignInBody {
    /// An ID token of the identity provider for the client id of this server.
    id_token: Option<String>,
    /// The code that `/login/callback` gave to the console.
    code: Option<String>,
    /// The verifier of the challenge.
    verifier: Option<String>,
}

async fn sign_in(
    State(app): State<SharedState>,
    headers: HeaderMap,
    JsonBody(proof): JsonBody<SignInBody>,
) -> Result<Response, Problem> {
    let provider = provider(&app)?;
    let person = match (&proof.id_token, &proof.code, &proof.verifier) {
        (Some(token), None, None) => provider.person(token.trim(), None, app.engine.clock().now()).await?,
        (None, Some(code), Some(verifier)) => {
            let over = || SignInError::Refused("the code is unknown, used or expired; sign in again".into());
            redeem_sign_in(&app.engine, code, verifier).await?.ok_or_else(over)?
        }
        _ => {
            let detail = "send either `id_token`, or `code` and `verifier`";
            return Err(Problem::new(ProblemCode::DocumentInvalid, detail));
        }
    };
    let length = provider.settings().session.0;
    let behalf = on(&person.name, "POST /v1/sessions");
    let (session, token) = with_actor(behalf, begin_session(&app.engine, &person, length)).await?;
    let from = headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    tracing::info!(user = session.user, roles = ?person.roles, tenant = ?person.tenant, from, "signed in");
    let mut body = seen(&session);
    if let Some(fields) = body.as_object_mut() {
        fields.insert("token".into(), Value::String(token.reveal()));
        fields.insert("roles".into(), json!(person.roles));
        fields.insert("tenant".into(), json!(person.tenant));
    }
    let mut answer = unkept((StatusCode::CREATED, Json(body)).into_response());
    answer.extensions_mut().insert(ContainsSecret);
    Ok(answer)
}

/// Returns a session without its token.
fn seen(session: &Session) -> Value {
    let mut value = mapping::thing(session, &["began_at", "ends_at"]);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("hash");
    }
    value
}

async fn list(
    State(app): State<SharedState>,
    QueryParams(wanted): QueryParams<Paging>,
) -> Result<Json<ListPage<Value>>, Problem> {
    let page = wanted.page()?;
    let now = app.engine.clock().now();
    let (sessions, next) = documents::<Session>(&app, "", &page, |session| now < session.ends_at).await?;
    Ok(Json(ListPage::new(sessions.iter().map(seen).collect(), next)))
}

async fn sign_out(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    headers: HeaderMap,
) -> Result<StatusCode, Problem> {
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token: Option<Token> = token.and_then(crate::http::credentials::bearer);
    let ended = match token {
        Some(token) => auth::end_session(&app.engine, &token.id).await?,
        None => false,
    };
    if !ended {
        let detail = format!("{} has no session; the token was issued by an admin", caller.name);
        return Err(Problem::new(ProblemCode::NotFound, detail));
    }
    tracing::info!(user = caller.name, "signed out");
    Ok(StatusCode::NO_CONTENT)
}

async fn end(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
    Path(id): Path<String>,
) -> Result<StatusCode, Problem> {
    if auth::end_session(&app.engine, &id).await? {
        tracing::info!(session = id, by = caller.name, "session ended");
        return Ok(StatusCode::NO_CONTENT);
    }
    Err(Problem::not_found("session", &id))
}
