//! HTTP `/v1`: one file per resource, one table of routes, one table of codes.
//!
//! Every route says what it takes to be let in ([`Access`]), what it does and what it answers; the table cannot hold one that
//! does not. Described in `docs/http-api.md`, and by the server itself at `/openapi.json`.

mod console;
mod extract;
pub(crate) mod middleware;
mod openapi;
pub(crate) mod operation_types;
mod problem;
mod request_doc;
mod resource_kind;
pub(crate) mod resources;
mod route;
mod route_doc;

pub(crate) use crate::http::middleware::claim::Under as UnderKey;
pub(crate) use crate::http::middleware::idempotency::KEPT_FOR;
pub(crate) use crate::http::resources::schedules::startable::InName;
pub(crate) use crate::http::resources::streams::{Feed, tell_what_happens};
pub(crate) use crate::types::executions::Progress;
pub(crate) use crate::types::mapping::time;
pub use openapi::document as openapi;
pub(crate) use route::router;
pub use route::{Access, Rule, codes, rules};
