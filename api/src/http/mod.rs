//! The HTTP API `/v1`: one file per resource, one table of routes, one table of problem codes.
//!
//! Every route declares its access rule ([`Access`]), its purpose and its answers; the table cannot contain a route without them. Documented in
//! `docs/http-api.md` and at `/openapi.json`.

mod address;
mod another_person;
mod credentials;
mod extract;
pub(crate) mod middleware;
mod openapi;
pub(crate) mod problem;
mod request_doc;
mod resource_kind;
mod resource_routes;
pub(crate) mod resources;
mod route;
mod route_doc;
pub(crate) mod router;

pub use openapi::document as openapi;
pub use problem::code::codes;
pub use route::{Access, DryRunBy, RouteInfo};
pub use router::rules;
