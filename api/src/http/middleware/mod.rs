//! Layers around every request: access, rate limits, idempotency, request ids and response headers.
//!
//! Applied by the router. Invariant: no layer imports a resource.

pub(crate) mod agent_key;
pub(crate) mod guard;
pub(crate) mod headers;
pub(crate) mod idempotency;
pub(crate) mod idempotency_lock;
pub(crate) mod loopback;
pub(crate) mod observe;
pub(crate) mod rate_limit;
pub(crate) mod traceparent;
