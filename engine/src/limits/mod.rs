//! Limits of one key: concurrency, rate, closure and circuit breaker. A key is a tenant, an action, a cluster, or any
//! name.
//!
//! The worker acquires the limits before every attempt of an action and releases them afterwards. An attempt acquires
//! all its keys or none. An attempt that cannot acquire them is deferred, which counts neither as an attempt nor as a
//! delivery. The limiter of a key is one document, changed by conditional commits, so it holds for all engines of the
//! store; each process has its own list of waiting tasks. Invariant: a permit is released by its attempt, or lapses
//! with the lease of the attempt. ADR 0008.

mod breaker;
pub(crate) mod limiter;
pub(crate) mod rule;
pub(crate) mod state;
pub(crate) mod waiters;

pub use breaker::{Breaker, BreakerRule, BreakerState};
pub use limiter::{Deferral, KeyClosure, Limiter, Permit};
pub use rule::{Limit, LimitError, Rate};
