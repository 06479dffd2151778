//! The runtime around the core: it loads, leases, performs, commits and sleeps.
//!
//! Called by every caller of [`Engine`](crate::Engine). Invariant: one path changes an execution: load,
//! [`transition`](crate::transition()), commit, and again on conflict.

pub(crate) mod adapter;
pub(crate) mod attempts;
pub(crate) mod clock;
pub(crate) mod clock_guard;
pub(crate) mod commit;
pub(crate) mod decisions;
pub(crate) mod deliver;
pub(crate) mod engine;
pub(crate) mod fault_hook;
pub(crate) mod ledger;
pub(crate) mod messages;
pub(crate) mod metrics;
pub(crate) mod options;
pub(crate) mod registration;
pub(crate) mod relay;
pub(crate) mod request;
pub(crate) mod start;
pub(crate) mod version_routing;
pub(crate) mod wakeup;
pub(crate) mod worker;
