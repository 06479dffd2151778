//! The worker: leases due tasks, performs each, and commits its result.
//!
//! Started by [`Engine::run`](crate::Engine::run). Invariant: the worker decides nothing; every decision is in `core`.

pub(crate) mod dispatch;
pub(crate) mod ledger_action;
pub(crate) mod task;
