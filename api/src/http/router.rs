//! The table of routes, and the router built from it.

use crate::{
    http::{
        address::{inner_path, is_text, outer_path},
        extract::{dry_run, if_match},
        middleware::{guard, observe},
        openapi,
        problem::{Problem, code::ProblemCode},
        resources::{
            access, agents, approvals, audit, batches, certificates, channels, closed_tenants, cluster_keys,
            console, delegations, engines, events, executions, fleet, groups, health, incidents, leftovers,
            legal_holds, limits, metrics, nodes, observations, offboardings, policies, reclaims, repairs,
            reservations, retention, schedules, search, sessions, store, streams, sweeps, tenant_changes,
            tenants, usage, users, workflow_versions, workflows, workloads, workspaces,
        },
        route::{Route, RouteInfo},
    },
    state::SharedState,
};
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    http::{Method, Uri},
    middleware::{self, Next},
    response::{IntoResponse, Response},
};
use tower_http::catch_panic::CatchPanicLayer;

/// Returns all routes of the server.
pub(super) fn table() -> Vec<Route> {
    [
        tenants::routes(),
        fleet::routes(),
        cluster_keys::routes(),
        nodes::routes(),
        agents::routes(),
        workspaces::routes(),
        usage::routes(),
        reservations::routes(),
        workloads::routes(),
        observations::routes(),
        reclaims::routes(),
        offboardings::routes(),
        tenant_changes::routes(),
        incidents::routes(),
        sweeps::routes(),
        schedules::routes(),
        channels::routes(),
        legal_holds::routes(),
        certificates::routes(),
        closed_tenants::routes(),
        search::routes(),
        executions::routes(),
        streams::routes(),
        repairs::routes(),
        leftovers::routes(),
        batches::routes(),
        limits::routes(),
        engines::routes(),
        store::routes(),
        approvals::routes(),
        delegations::routes(),
        groups::routes(),
        events::routes(),
        users::routes(),
        sessions::routes(),
        access::routes(),
        policies::routes(),
        audit::routes(),
        retention::routes(),
        workflows::routes(),
        workflow_versions::routes(),
        console::routes(),
        openapi::routes(),
        health::routes(),
        metrics::routes(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// Returns all routes of the server, for documents and tests.
#[must_use]
pub fn rules() -> Vec<RouteInfo> {
    table().iter().map(Route::rule).collect()
}

/// Builds the router of the server.
pub(crate) fn router(app: &SharedState) -> Router {
    let mut router = Router::new();
    for route in table() {
        let guard = middleware::from_fn_with_state((app.clone(), route.access), guard::guard);
        let strict = !route.reads_parameters();
        let guarded = route.answer.layer(guard);
        let bound = if route.reads.bound {
            guarded
        } else {
            guarded.layer(middleware::from_fn(if_match::reject_if_match))
        };
        let answer = if strict { bound.layer(middleware::from_fn(dry_run::refused)) } else { bound };
        router = router.route(&inner_path(route.path), answer);
    }
    let limit = DefaultBodyLimit::max(app.config.http.body_limit_bytes);
    let inner = router
        .fallback(async |uri: Uri| {
            let path = outer_path(uri.path());
            Problem::new(ProblemCode::NoRoute, format!("unknown path {path}"))
        })
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            let path = outer_path(uri.path());
            Problem::new(ProblemCode::NoMethod, format!("{path} does not support {method}"))
        })
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            Problem::new(ProblemCode::Internal, "the handler of the request panicked").into_response()
        }))
        .layer(limit)
        .layer(middleware::from_fn(require_utf8_path))
        .layer(middleware::from_fn_with_state(app.clone(), observe::observe))
        .with_state(app.clone());
    Router::new().fallback_service(inner).layer(middleware::map_request(verb_as_segment))
}

/// Rejects a path whose segments are not UTF-8.
async fn require_utf8_path(request: Request, next: Next) -> Response {
    if is_text(request.uri().path()) {
        return next.run(request).await;
    }
    Problem::new(ProblemCode::Malformed, "the percent-decoded path is not UTF-8").into_response()
}

async fn verb_as_segment(mut request: Request) -> Request {
    let uri = request.uri();
    let path = inner_path(uri.path());
    if path != uri.path() {
        let text = uri.query().map_or_else(|| path.clone(), |query| format!("{path}?{query}"));
        if let Ok(uri) = text.parse() {
            *request.uri_mut() = uri;
        }
    }
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_routes_are_equal() {
        let rules = rules();
        for (i, rule) in rules.iter().enumerate() {
            let same = |other: &RouteInfo| other.method == rule.method && other.path == rule.path;
            assert!(!rules.iter().skip(i + 1).any(same), "{rule:?}");
        }
    }
}
