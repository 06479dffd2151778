//! HTTP `/v1`: one file per resource, one table of routes, one table of codes.
//!
//! Every route says what it takes to be let in ([`Access`]), what it does and what it answers; the table cannot hold one that
//! does not. Described in `docs/http-api.md`, and by the server itself at `/openapi.json`.

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
