//! A trace span, a request id and metrics for every request.

use crate::{
    http::{
        address::{AGENT_PULL, outer_path},
        middleware::{
            headers, rate_limit,
            traceparent::{CallerTrace, in_trace},
        },
        problem::denial::{self, RequestSummary},
    },
    state::SharedState,
};
use axum::{
    extract::{MatchedPath, Request, State},
    http::{HeaderMap, HeaderName, HeaderValue, header},
    middleware::Next,
    response::Response,
};
use engine::Stopwatch;
use program::encoding::hex;
use std::sync::atomic::Ordering;
use tracing::Instrument as _;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Wraps every request.
pub(in crate::http) async fn observe(
    State(app): State<SharedState>,
    request: Request,
    next: Next,
) -> Response {
    let id = sent_id(request.headers()).unwrap_or_else(|| hex::encode(&app.engine.clock().entropy()));
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or_else(|| "unknown".to_owned(), |path| outer_path(path.as_str()));
    let span = tracing::info_span!("request", id, %method, route, caller = tracing::field::Empty);
    let (asking, from, path) =
        (RequestSummary::of(&request), rate_limit::client_address(&request), request.uri().path().to_owned());
    let caller = CallerTrace::of(request.headers());
    let watch = Stopwatch::start();
    let mut answer = in_trace(caller.clone(), next.run(request)).instrument(span.clone()).await;
    if headers::is_api(&path) {
        answer = rate_limit::add_headers(&app, from, answer);
    }
    let (status, took) = (answer.status(), watch.elapsed());
    let late = span.in_scope(|| asking.answered(&app, &id, &answer));
    denial::delay(&app, late).await;
    let _in = span.enter();
    let ms = u64::try_from(took.as_millis()).unwrap_or(u64::MAX);
    if status.is_server_error() {
        tracing::warn!(status = status.as_u16(), ms, "answered");
    } else {
        tracing::debug!(status = status.as_u16(), ms, "answered");
    }
    // A long poll waits on purpose, so its duration is not measured.
    let timed = (route != AGENT_PULL).then_some(took);
    let trace = caller.as_ref().map(CallerTrace::trace_id);
    app.requests.answered((method.as_str(), &route), status.as_u16(), timed, trace);
    // Makes clients with keep-alive connections reconnect to another server, before this one stops.
    if app.stopping.load(Ordering::Acquire) {
        answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    headers::add(&mut answer, &path, app.tls.is_some(), app.engine.clock().now());
    if let Ok(value) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert(REQUEST_ID, value);
    }
    answer
}

/// Returns the request id of the caller, if it is short and of plain characters.
fn sent_id(headers: &HeaderMap) -> Option<String> {
    let text = headers.get(REQUEST_ID)?.to_str().ok()?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    (!text.is_empty() && text.len() <= 64 && text.chars().all(plain)).then(|| text.to_owned())
}
