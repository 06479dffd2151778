//! The table of routes, and the router made from it.

use super::{
    account, agents, approvals, audit, batches, certificates, changes, code::Code, console, delegations,
    engines, events, executions, facts, fleet, found, groups, guard, health, holds, incidents, limits,
    metrics, nodes, observe, offboardings, policies, problem::Problem, reclaims, repairs, reservations,
    retention, schedules, sessions, store, streams, sweeps, tenants, users, versions, workflows, workloads,
};
use crate::{app::Shared, auth::Verb};
use ::workflows::tenancy::Scope;
use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    handler::Handler,
    http::{Method, Uri},
    middleware,
    response::IntoResponse,
    routing::{MethodFilter, MethodRouter, on},
};
use strum::VariantArray as _;
use tower_http::catch_panic::CatchPanicLayer;

/// What it takes to be let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing.
    Open,
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
            Self::Cluster(verb, _) | Self::Staff(verb) | Self::Tenant(verb) => Some(verb),
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

/// One route: where, for whom, and what answers.
pub(crate) struct Route {
    method: Method,
    path: &'static str,
    access: Access,
    answer: MethodRouter<Shared>,
}

impl Route {
    /// A route that reads.
    pub(crate) fn get<H: Handler<T, Shared>, T: 'static>(
        path: &'static str,
        access: Access,
        handler: H,
    ) -> Self {
        Self { method: Method::GET, path, access, answer: on(MethodFilter::GET, handler) }
    }

    /// A route that changes something.
    pub(crate) fn post<H: Handler<T, Shared>, T: 'static>(
        path: &'static str,
        access: Access,
        handler: H,
    ) -> Self {
        Self { method: Method::POST, path, access, answer: on(MethodFilter::POST, handler) }
    }

    /// A route that puts something in its place.
    pub(crate) fn put<H: Handler<T, Shared>, T: 'static>(
        path: &'static str,
        access: Access,
        handler: H,
    ) -> Self {
        Self { method: Method::PUT, path, access, answer: on(MethodFilter::PUT, handler) }
    }

    /// A route that removes something.
    pub(crate) fn delete<H: Handler<T, Shared>, T: 'static>(
        path: &'static str,
        access: Access,
        handler: H,
    ) -> Self {
        Self { method: Method::DELETE, path, access, answer: on(MethodFilter::DELETE, handler) }
    }
}

fn table() -> Vec<Route> {
    [
        tenants::routes(),
        fleet::routes(),
        nodes::routes(),
        agents::routes(),
        account::routes(),
        reservations::routes(),
        workloads::routes(),
        facts::routes(),
        reclaims::routes(),
        offboardings::routes(),
        changes::routes(),
        incidents::routes(),
        sweeps::routes(),
        schedules::routes(),
        holds::routes(),
        certificates::routes(),
        found::routes(),
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
        policies::routes(),
        audit::routes(),
        retention::routes(),
        workflows::routes(),
        versions::routes(),
        console::routes(),
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
        router = router.route(&inner_path(route.path), route.answer.layer(guard));
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
