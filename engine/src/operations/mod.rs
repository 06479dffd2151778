//! Operations for operators and servers: queries, proposals, pending work, migration, retention and limits.
//!
//! Called by the API and the CLI. Invariant: a change of an execution goes through `Engine::commit` like any event.

pub(crate) mod expiry;
pub(crate) mod limits;
pub(crate) mod migration;
pub(crate) mod pending_work;
pub(crate) mod proposal;
pub(crate) mod query;
pub(crate) mod retention;
