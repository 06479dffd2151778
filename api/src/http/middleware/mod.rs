//! Layers around every request: access, rate limits, idempotency, request ids and response headers.
//!
//! Applied by the router. Invariant: no layer knows a single resource.

pub(crate) mod claim;
pub(crate) mod guard;
pub(crate) mod headers;
pub(crate) mod idempotency;
pub(crate) mod loopback;
pub(crate) mod observe;
pub(crate) mod rate_limit;
pub(crate) mod traceparent;
