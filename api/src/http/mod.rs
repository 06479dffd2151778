//! HTTP `/v1`: one file per resource, one table of routes, one table of codes.
//!
//! Every route says what it takes to be let in ([`Access`]), what it does and what it answers; the table cannot hold one that
//! does not. Described in `docs/http-api.md`, and by the server itself at `/openapi.json`.

mod account;
mod agents;
mod approvals;
mod audit;
mod batches;
mod certificates;
mod changes;
mod code;
mod console;
mod delegations;
mod engines;
mod events;
mod executions;
mod facts;
mod fleet;
mod found;
mod groups;
mod guard;
mod health;
mod holds;
mod idempotency;
mod incidents;
mod kinds;
mod limits;
mod metrics;
mod nodes;
mod observe;
mod offboardings;
mod openapi;
mod page;
mod parts;
mod policies;
mod problem;
mod read;
mod reclaims;
mod repairs;
mod reservations;
mod retention;
mod reviews;
mod route;
mod schedule_definition;
mod schedules;
mod sessions;
mod shown;
mod startable;
mod starts;
mod store;
mod streams;
mod sweeps;
mod tenants;
mod told;
mod users;
mod versions;
mod view;
mod workflows;
mod workloads;

pub(crate) use idempotency::{KEPT_FOR, Kept as KeptAnswer};
pub use openapi::document as openapi;
pub(crate) use route::router;
pub use route::{Access, Rule, codes, rules};
pub(crate) use startable::InName;
pub(crate) use streams::{Feed, tell_what_happens};
pub(crate) use view::time;
