//! How much may be asked of one key at once, how fast, and whether at all: a tenant, an action, a cluster, or any name.
//!
//! Called by the worker before and after every attempt of an action on the world. An attempt passes all its keys or
//! none; what does not pass is put off, which counts neither as an attempt nor as a delivery. What stands at a key is
//! one document, changed by commits that are conditional on it, so it holds for every engine on the store; who waits is
//! known to each process by itself. Invariant: a place is given back by its attempt, or lapses with the attempt's
//! lease. ADR 0008.

mod breaker;
pub(crate) mod limiter;
pub(crate) mod rule;
pub(crate) mod state;
pub(crate) mod waiters;

pub use breaker::{Breaker, BreakerRule, BreakerState};
pub use limiter::{Deferral, KeyClosure, Limiter, Permit};
pub use rule::{Limit, LimitError, Rate};
