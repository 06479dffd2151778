//! What the HTTP server accepts.

use super::Span;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the HTTP server accepts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Http {
    /// The largest body, in bytes. Default 16 MiB.
    pub(crate) body_limit_bytes: usize,
    /// How long a server that was asked to stop goes on answering, while `/readyz` says that it is not ready, so that a load
    /// balancer sends nobody here any more by the time that it ends. Default `0s`.
    pub(crate) grace: Span,
    /// Streams of events at once, of everybody together. Default 1000.
    pub(crate) streams: usize,
    /// The same under one token. Default 16.
    pub(crate) streams_per_token: usize,
    /// Different wrong tokens or sign-ins from one network address within a minute that are answered at once; further ones
    /// are answered late. Default 20.
    pub(crate) guesses: u32,
}

impl Default for Http {
    fn default() -> Self {
        Self {
            body_limit_bytes: 16 << 20,
            grace: Span(Duration::ZERO),
            streams: 1_000,
            streams_per_token: 16,
            guesses: 20,
        }
    }
}
