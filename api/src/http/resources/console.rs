//! `/` and `/console/{file}`: the console, whose files are embedded in the program; and `/v1/me`, the caller.
//!
//! The files contain no data, so they need no token. The console loads its data from `/v1`, with the token of the user. The content security policy below
//! allows only scripts and data of this server.

use crate::{
    auth::{Caller, Verb, voting_person},
    http::{
        problem::{Problem, code::ProblemCode},
        route::{Access, Route},
        route_doc::doc,
    },
    state::SharedState,
    types::users::Me,
};
use axum::{
    Extension, Json,
    extract::{Path, State},
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use program::encoding::{hex, rfc3339::format_time};
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;
use strum::VariantArray as _;

pub(in crate::http) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/",
            Access::Open,
            index,
            doc("openConsole", "The console.").file(200, "text/html").file(304, "text/html").tagged(),
        ),
        Route::get(
            "/console/{file}",
            Access::Open,
            file,
            doc("readConsoleFile", "Returns a file of the console.").file(200, "*/*").tagged(),
        ),
        // Every authenticated caller may use this.
        Route::get(
            "/v1/me",
            Access::Tenant(Verb::ReadWorkflows),
            me,
            doc("showMe", "Shows the caller and their permissions.").says::<Me>(200),
        ),
    ]
}

/// The content security policy of the console: only resources of this server, no inline scripts or styles, no HTML from text.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; \
                      require-trusted-types-for 'script'; trusted-types 'none'";

/// Returns the headers of every file, in addition to those of every answer ([`headers`](crate::http::middleware::headers)).
fn guarded() -> [(HeaderName, HeaderValue); 3] {
    [
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
        // Browsers revalidate every file, usually with 304, so that a page never mixes files of two versions.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ]
}

/// A file of the console.
struct File {
    name: &'static str,
    bytes: &'static [u8],
}

macro_rules! files {
    ($($name:literal),* $(,)?) => {
        [$(File { name: $name, bytes: include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/console/", $name)) }),*]
    };
}

/// All files; a test compares them with the folder.
static FILES: &[File] = &files![
    "access.js",
    "actions.js",
    "api.js",
    "base.css",
    "channels.js",
    "components.css",
    "components.js",
    "diagram.js",
    "dialog.js",
    "dom.js",
    "favicon.svg",
    "format.js",
    "heatmap.js",
    "index.html",
    "keys.js",
    "layout.js",
    "list.js",
    "live.js",
    "main.js",
    "page-approvals.js",
    "page-audit.js",
    "page-borrowing.js",
    "page-certificates.js",
    "page-execution.js",
    "page-executions.js",
    "page-fleet.js",
    "page-login.js",
    "page-overview.js",
    "page-policies.js",
    "page-schedules.js",
    "page-system.js",
    "page-tenants.js",
    "page-workloads.js",
    "people.js",
    "plan.js",
    "reference.css",
    "reference.html",
    "reference.js",
    "requests.js",
    "route.js",
    "signin.js",
    "stream.js",
    "theme.js",
];

/// The `ETag` of each file, from its content.
static TAGS: LazyLock<Vec<HeaderValue>> = LazyLock::new(|| {
    let tag = |file: &File| {
        let digest = hex::encode(&Sha256::digest(file.bytes));
        let text = format!("\"{}\"", digest.get(..32).unwrap_or(&digest));
        HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("\"\""))
    };
    FILES.iter().map(tag).collect()
});

impl File {
    fn media(&self) -> HeaderValue {
        HeaderValue::from_static(match self.name.rsplit_once('.') {
            Some((_, "html")) => "text/html; charset=utf-8",
            Some((_, "css")) => "text/css; charset=utf-8",
            Some((_, "js")) => "text/javascript; charset=utf-8",
            Some((_, "svg")) => "image/svg+xml",
            _ => "application/octet-stream",
        })
    }
}

async fn index(headers: HeaderMap) -> Result<Response, Problem> {
    served("index.html", &headers)
}

/// Returns the page that shows `/openapi.json`.
pub(in crate::http) async fn reference(headers: HeaderMap) -> Result<Response, Problem> {
    served("reference.html", &headers)
}

async fn file(Path(name): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    served(&name, &headers)
}

fn served(name: &str, asked: &HeaderMap) -> Result<Response, Problem> {
    let found = FILES.iter().zip(TAGS.iter()).find(|(file, _)| file.name == name);
    let (file, tag) =
        found.ok_or_else(|| Problem::new(ProblemCode::NoRoute, format!("the console has no file {name}")))?;
    let known = asked.get(header::IF_NONE_MATCH).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let same =
        known.split(',').any(|known| known.trim().trim_start_matches("W/").as_bytes() == tag.as_bytes());
    let mut answer = if same { StatusCode::NOT_MODIFIED.into_response() } else { file.bytes.into_response() };
    let headers = answer.headers_mut();
    headers.insert(header::CONTENT_TYPE, file.media());
    headers.insert(header::ETAG, tag.clone());
    headers.extend(guarded());
    Ok(answer)
}

/// Returns the caller: name, roles and tenant; `may`, their permissions; `seats`, their seats at approvals; `ends_at`, the expiry of their credential.
async fn me(
    State(app): State<SharedState>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Me>, Problem> {
    let person = voting_person(&**app.engine.store(), &caller.name, &caller).await?;
    let person = person.unwrap_or_else(|| caller.person());
    let may = Verb::VARIANTS.iter().copied().filter(|verb| caller.may(*verb)).map(<&str>::from).collect();
    let ends_at = caller.ends_at.map(format_time);
    let (name, roles, tenant) = (caller.name, caller.roles, caller.tenant);
    Ok(Json(Me { name, roles, tenant, may, seats: person.roles, ends_at }))
}
