//! Metrics and traces of the server; `program::logs` writes its log lines.
//!
//! Called by all layers above. Invariant: no dependency on the server's state or on HTTP; metric labels are bounded.

pub(crate) mod metrics;
#[cfg(feature = "otlp")]
pub(crate) mod traces;
