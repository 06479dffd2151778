//! A route: its path, access rule, handler and documentation.

use crate::{
    auth::Verb,
    http::{
        extract::dry_run,
        request_doc::{DescribedHandler, RequestDoc},
        route_doc::{RouteDoc, SchemaWriter},
    },
    state::SharedState,
};
use ::workflows::tenancy::KeyScope;
use axum::{
    handler::Handler,
    http::Method,
    routing::{MethodFilter, MethodRouter, on},
};
use schemars::SchemaGenerator;

/// The access rule of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No authentication.
    Open,
    /// Open on the server's own machine, or everywhere with `http.open_metrics`; otherwise a role with this permission.
    Near(Verb),
    /// A key of the agents of the cluster in the path.
    Agent,
    /// The key of the cluster in the path, if it has this scope; or a role, as for [`Access::Staff`].
    Cluster(Verb, KeyScope),
    /// A role with this permission; a token bound to a tenant is rejected.
    Staff(Verb),
    /// A role with this permission; a token bound to a tenant only sees resources of that tenant.
    Tenant(Verb),
}

impl Access {
    /// Returns the permission that the route requires, if any.
    pub(super) fn verb(self) -> Option<Verb> {
        match self {
            Self::Open | Self::Agent => None,
            Self::Near(verb) | Self::Cluster(verb, _) | Self::Staff(verb) | Self::Tenant(verb) => Some(verb),
        }
    }
}

/// A route, for documents and tests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteInfo {
    /// The HTTP method.
    pub method: String,
    /// The path, such as `/v1/executions/{id}:cancel`.
    pub path: &'static str,
    /// The access rule.
    pub access: Access,
    /// How a dry run is requested, if supported.
    pub dry_run: Option<DryRunBy>,
}

/// How a dry run is requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DryRunBy {
    /// With the parameter `?dry_run=true`.
    Parameter,
    /// With the field `"dry_run": true` of the body.
    Field,
    /// With the path: the route is always a dry run.
    Address,
}

/// A route: path, access rule, handler and documentation.
pub(crate) struct Route {
    pub(super) method: Method,
    pub(super) path: &'static str,
    pub(super) access: Access,
    pub(super) answer: MethodRouter<SharedState>,
    pub(super) told: RouteDoc,
    pub(super) reads: RequestDoc,
}

impl Route {
    /// Returns the route for documents and tests.
    pub(super) fn rule(&self) -> RouteInfo {
        let Self { method, path, access, .. } = self;
        RouteInfo { method: method.to_string(), path, access: *access, dry_run: self.dry_run() }
    }

    /// Returns true if unknown parameters need no rejection: the route changes nothing, or the handler checks them.
    pub(super) fn reads_parameters(&self) -> bool {
        self.method == Method::GET || self.reads.query.is_some() || !self.told.asks.is_empty()
    }

    /// Returns how a dry run is requested, from the inputs of the handler.
    fn dry_run(&self) -> Option<DryRunBy> {
        let has = |writes: Option<SchemaWriter>| {
            let schema = writes.map(|writes| writes(&mut SchemaGenerator::default()).to_value());
            schema.is_some_and(|schema| {
                schema.pointer("/properties").is_some_and(|all| all.get(dry_run::NAME).is_some())
            })
        };
        match self {
            _ if self.path.ends_with(":plan") => Some(DryRunBy::Address),
            _ if has(self.reads.query) => Some(DryRunBy::Parameter),
            _ if has(self.reads.body) => Some(DryRunBy::Field),
            _ => None,
        }
    }

    /// Creates a GET route.
    pub(crate) fn get<H: Handler<T, SharedState>, T: DescribedHandler + 'static>(
        path: &'static str,
        access: Access,
        handler: H,
        told: RouteDoc,
    ) -> Self {
        let answer = on(MethodFilter::GET, handler);
        Self { method: Method::GET, path, access, answer, told, reads: T::told() }
    }

    /// Creates a POST route.
    pub(crate) fn post<H: Handler<T, SharedState>, T: DescribedHandler + 'static>(
        path: &'static str,
        access: Access,
        handler: H,
        told: RouteDoc,
    ) -> Self {
        let answer = on(MethodFilter::POST, handler);
        Self { method: Method::POST, path, access, answer, told, reads: T::told() }
    }

    /// Creates a PUT route.
    pub(crate) fn put<H: Handler<T, SharedState>, T: DescribedHandler + 'static>(
        path: &'static str,
        access: Access,
        handler: H,
        told: RouteDoc,
    ) -> Self {
        let answer = on(MethodFilter::PUT, handler);
        Self { method: Method::PUT, path, access, answer, told, reads: T::told() }
    }

    /// Creates a DELETE route.
    pub(crate) fn delete<H: Handler<T, SharedState>, T: DescribedHandler + 'static>(
        path: &'static str,
        access: Access,
        handler: H,
        told: RouteDoc,
    ) -> Self {
        let answer = on(MethodFilter::DELETE, handler);
        Self { method: Method::DELETE, path, access, answer, told, reads: T::told() }
    }
}
