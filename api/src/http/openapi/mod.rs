//! Self-description of the API: `/openapi.json`, built from the table of routes and the types of requests and answers; `/reference`, the same as a page; and
//! `/problems/{code}`, the target of every problem's `type`.

mod document;
mod operation;
mod parameters;
mod problems;
mod responses;

pub use document::document;

use crate::{
    http::{
        problem::{Problem, code::ProblemCode},
        resources::console::reference,
        route::{Access, Route},
        route_doc::doc,
    },
    types::{Object, problems::ProblemType},
};
use axum::{
    Json,
    extract::Path,
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use program::encoding::hex;
use sha2::{Digest as _, Sha256};
use std::sync::LazyLock;

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/openapi.json",
            Access::Open,
            serve_document,
            doc("describe", "Returns this description as OpenAPI 3.1.").says::<Object>(200).tagged(),
        ),
        Route::get(
            "/reference",
            Access::Open,
            reference,
            doc("openReference", "Shows this description as a page.").file(200, "text/html").tagged(),
        ),
        Route::get(
            "/problems/{code}",
            Access::Open,
            serve_problem,
            doc(
                "explainProblem",
                "Explains a problem code and its remedy; as a page with `Accept: text/html`.",
            )
            .says::<ProblemType>(200)
            .moves()
            .may(&[ProblemCode::NotFound]),
        ),
    ]
}

/// The serialised description and its `ETag`.
static TEXT: LazyLock<(String, HeaderValue)> = LazyLock::new(|| {
    let mut document = document();
    document.sort_all_objects();
    let text = document.to_string();
    let digest = hex::encode(&Sha256::digest(&text));
    let tag = format!("\"{}\"", digest.get(..32).unwrap_or(&digest));
    (text, HeaderValue::from_str(&tag).unwrap_or(HeaderValue::from_static("\"\"")))
});

async fn serve_document(headers: HeaderMap) -> Response {
    let (text, tag) = &*TEXT;
    let headed = [
        (header::ETAG, tag.clone()),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_TYPE, HeaderValue::from_static("application/json")),
    ];
    if headers.get(header::IF_NONE_MATCH).is_some_and(|known| known == tag) {
        return (StatusCode::NOT_MODIFIED, headed).into_response();
    }
    (headed, text.as_str()).into_response()
}

async fn serve_problem(Path(code): Path<String>, headers: HeaderMap) -> Result<Response, Problem> {
    let found = problems::explain(&code).ok_or_else(|| Problem::not_found("problem", &code))?;
    let wants = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if wants.contains("text/html") {
        let page = [(header::LOCATION, format!("/reference#problems/{code}"))];
        return Ok((StatusCode::SEE_OTHER, page).into_response());
    }
    Ok(Json(found).into_response())
}

#[cfg(test)]
mod tests;
