//! Metrics and traces of the server; its log lines are written by `program::logs`.
//!
//! Called by every layer above. Invariant: nothing here depends on the server's state or on HTTP; metric labels are bounded.

pub(crate) mod metrics;
#[cfg(feature = "otlp")]
pub(crate) mod traces;
