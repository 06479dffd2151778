//! The table of routes, and the router made from it.

use crate::http::{
    console,
    extract::if_match,
    middleware::{guard, observe},
    openapi,
    problem::{Problem, code::Code},
    request_doc::{Inputs, Parts},
    resources::{
        access, agents, approvals, audit, batches, certificates, channels, cluster_keys, delegations,
        engines, events, executions, facts, fleet, groups, health, incidents, legal_holds, limits, metrics,
        nodes, offboardings, policies, reclaims, repairs, reservations, retention, schedules, search,
        sessions, store, streams, sweeps, tenant_changes, tenants, usage, users, workflow_versions,
        workflows, workloads, workspaces,
    },
    route_doc::Told,
};
use crate::{auth::Verb, state::Shared};
use ::workflows::tenancy::Scope;
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    handler::Handler,
    http::{Method, Uri},
    middleware::{self, Next},
    response::{IntoResponse, Response},
    routing::{MethodFilter, MethodRouter, on},
};
use strum::VariantArray as _;
use tower_http::catch_panic::CatchPanicLayer;

/// What it takes to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
    /// Nothing on the server's own machine, nor where `http.open_metrics` is set; from elsewhere a role that may do this.
    Near(Verb),
    /// A key of the agents of the cluster that the address names; nobody else.
    Agent,
    /// The key of the cluster that the address names, if it may be used for this; or a role, as for [`Access::Staff`].
    Cluster(Verb, Scope),
    /// A role that may do this; a token bound to a tenant is refused.
    Staff(Verb),
    /// A role that may do this; a token bound to a tenant meets that tenant's things alone.
    Tenant(Verb),
}

impl Access {
    /// What is done there, if it takes anything to be let in.
    pub(super) fn verb(self) -> Option<Verb> {
        match self {
            Self::Open | Self::Agent => None,
            Self::Near(verb) | Self::Cluster(verb, _) | Self::Staff(verb) | Self::Tenant(verb) => Some(verb),
        }
    }
}

/// One route as documents and tests see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The method.
    pub method: String,
    /// The address, such as `/v1/executions/{id}:cancel`.
    pub path: &'static str,
    /// What it takes to be let in.
    pub access: Access,
}

/// One route: where, for whom, what answers, and what it says of itself.
pub(crate) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
    answer: MethodRouter<Shared>,
    pub(super) told: Told,
    pub(super) reads: Inputs,
}

impl Route {
    /// A route that reads.
    pub(crate) fn get<H: Handler<T, Shared>, T: Parts + 'static>(
        path: &'static str,
        access: Access,
        handler: H,
        told: Told,
    ) -> Self {
        let answer = on(MethodFilter::GET, handler);
        Self { method: Method::GET, path, access, answer, told, reads: T::told() }
    }

    /// A route that changes something.
    pub(crate) fn post<H: Handler<T, Shared>, T: Parts + 'static>(
        path: &'static str,
        access: Access,
        handler: H,
        told: Told,
    ) -> Self {
        let answer = on(MethodFilter::POST, handler);
        Self { method: Method::POST, path, access, answer, told, reads: T::told() }
    }

    /// A route that puts something in its place.
    pub(crate) fn put<H: Handler<T, Shared>, T: Parts + 'static>(
        path: &'static str,
        access: Access,
        handler: H,
        told: Told,
    ) -> Self {
        let answer = on(MethodFilter::PUT, handler);
        Self { method: Method::PUT, path, access, answer, told, reads: T::told() }
    }

    /// A route that removes something.
    pub(crate) fn delete<H: Handler<T, Shared>, T: Parts + 'static>(
        path: &'static str,
        access: Access,
        handler: H,
        told: Told,
    ) -> Self {
        let answer = on(MethodFilter::DELETE, handler);
        Self { method: Method::DELETE, path, access, answer, told, reads: T::told() }
    }
}

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
        facts::routes(),
        reclaims::routes(),
        offboardings::routes(),
        tenant_changes::routes(),
        incidents::routes(),
        sweeps::routes(),
        schedules::routes(),
        channels::routes(),
        legal_holds::routes(),
        certificates::routes(),
        search::routes(),
        executions::routes(),
        streams::routes(),
        repairs::routes(),
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

/// Every route that is served, for documents and tests.
#[must_use]
pub fn rules() -> Vec<Rule> {
    let rule =
        |route: Route| Rule { method: route.method.to_string(), path: route.path, access: route.access };
    table().into_iter().map(rule).collect()
}

/// Every code that a problem can carry, with its status, title and remedy.
#[must_use]
pub fn codes() -> Vec<(&'static str, u16, &'static str, &'static str)> {
    Code::VARIANTS.iter().map(|code| code.facts()).collect()
}

/// The router that answers.
pub(crate) fn router(app: &Shared) -> Router {
    let mut router = Router::new();
    for route in table() {
        let guard = middleware::from_fn_with_state((app.clone(), route.access), guard::guard);
        let guarded = route.answer.layer(guard);
        let answer =
            if route.reads.bound { guarded } else { guarded.layer(middleware::from_fn(if_match::refused)) };
        router = router.route(&inner_path(route.path), answer);
    }
    let limit = DefaultBodyLimit::max(app.config.http.body_limit_bytes);
    let inner = router
        .fallback(async |uri: Uri| {
            let path = outer_path(uri.path());
            Problem::new(Code::NoRoute, format!("nothing is served at {path}"))
        })
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            let path = outer_path(uri.path());
            Problem::new(Code::NoMethod, format!("{path} does not take {method}"))
        })
        .layer(CatchPanicLayer::custom(|_: Box<dyn std::any::Any + Send>| {
            Problem::new(Code::Internal, "the request ended in a panic").into_response()
        }))
        .layer(limit)
        .layer(middleware::from_fn(readable))
        .layer(middleware::from_fn_with_state(app.clone(), observe::observe))
        .with_state(app.clone());
    Router::new().fallback_service(inner).layer(middleware::map_request(verb_as_segment))
}

/// `/v1/executions/{id}:cancel` as routes are matched: `/v1/executions/{id}/~cancel`.
fn inner_path(path: &str) -> String {
    match path.rsplit_once('/') {
        Some((front, last)) => match last.rsplit_once(':') {
            Some((thing, verb)) => format!("{front}/{thing}/~{verb}"),
            None => path.to_owned(),
        },
        None => path.to_owned(),
    }
}

/// A matched path as people write it.
pub(super) fn outer_path(path: &str) -> String {
    path.replace("/~", ":")
}

/// Refuses an address whose parts are no text: what is in a path is a name of something.
async fn readable(request: Request, next: Next) -> Response {
    if is_text(request.uri().path()) {
        return next.run(request).await;
    }
    Problem::new(Code::Malformed, "the address is not UTF-8 when its %XX are read").into_response()
}

/// Whether the bytes that a path says are UTF-8.
fn is_text(path: &str) -> bool {
    std::str::from_utf8(&unescape(path)).is_ok()
}

/// The bytes that a text with `%XX` says.
pub(super) fn unescape(path: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut parts = path.split('%');
    bytes.extend_from_slice(parts.next().unwrap_or_default().as_bytes());
    for part in parts {
        let (said, rest) = part.split_at_checked(2).unwrap_or(("", part));
        match u8::from_str_radix(said, 16) {
            Ok(byte) => bytes.push(byte),
            // As it stands: no byte is said.
            Err(_) => {
                bytes.push(b'%');
                bytes.extend_from_slice(said.as_bytes());
            }
        }
        bytes.extend_from_slice(rest.as_bytes());
    }
    bytes
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
    fn a_verb_becomes_a_segment_and_back() {
        for path in ["/v1/executions/{id}:cancel", "/v1/tenants:plan", "/v1/tenants"] {
            assert_eq!(outer_path(&inner_path(path)), path);
        }
    }

    #[test]
    fn a_path_is_text_or_is_refused() {
        for text in ["/v1/limits/cluster%2Feu-1", "/v1/%C3%A9", "/v1/100%", "/v1/%zz"] {
            assert!(is_text(text), "{text}");
        }
        assert!(!is_text("/v1/tenants/%FF") && !is_text("/v1/%C3x"));
    }

    #[test]
    fn no_two_routes_are_the_same() {
        let rules = rules();
        for (i, rule) in rules.iter().enumerate() {
            let same = |other: &Rule| other.method == rule.method && other.path == rule.path;
            assert!(!rules.iter().skip(i + 1).any(same), "{rule:?}");
        }
    }

    #[test]
    fn codes_are_named_once() {
        let mut names: Vec<_> = codes().into_iter().map(|(name, ..)| name).collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
