//! HTTP `/v1`: one file per resource, one table of routes, one table of codes.
//!
//! Every route says what it takes to be let in ([`Access`]); the table cannot hold one that does not. Described in
//! `docs/http-api.md`.

mod approvals;
mod code;
mod events;
mod executions;
mod fleet;
mod guard;
mod health;
mod idempotency;
mod metrics;
mod nodes;
mod observe;
mod page;
mod problem;
mod read;
mod route;
mod tenants;
mod users;
mod view;
mod workflows;

pub(crate) use idempotency::{KEPT_FOR, Kept as KeptAnswer};
pub(crate) use route::router;
pub use route::{Access, Rule, codes, rules};
