//! What the HTTP server accepts.

use super::ConfigDuration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What the HTTP server accepts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// The largest body, in bytes. Default 16 MiB.
    pub body_limit_bytes: usize,
    /// How long a server that was asked to stop goes on answering, while `/readyz` says that it is not ready, so that a load
    /// balancer sends nobody here any more by the time that it ends. Default `0s`.
    pub grace: ConfigDuration,
    /// Streams of events at once, of everybody together. Default 1000.
    pub streams: usize,
    /// The same under one token. Default 16.
    pub streams_per_token: usize,
    /// Different wrong tokens or sign-ins from one network address within a minute that are answered at once; further ones
    /// are answered late. Default 20.
    pub guesses: u32,
    /// Whether whoever reaches the port reads `/metrics` and the checks of `/readyz` in full. If not, that takes a token, but for
    /// who asks on this machine. Default false.
    pub open_metrics: bool,
    /// How long the head of a request may take to come, and its body for what it holds more than a second for each 64 KiB.
    /// Default `30s`.
    pub read_timeout: ConfigDuration,
    /// How long a connection stays open on which nothing is asked, or whose answer is not taken. Default `2m`.
    pub idle_timeout: ConfigDuration,
    /// Connections at once; further ones wait until one ends. Default 8192.
    pub connections: usize,
    /// Requests to `/v1` in a second that each caller may send on and on; 0 for as many as they like. Default 100.
    pub rate: u32,
    /// So many of them may come at once after a quiet while. Default 400.
    pub rate_burst: u32,
}

/// How long a server may take to answer a client.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The most that a rate or a burst can be.
const MOST_REQUESTS: u32 = 1_000_000;

impl Http {
    /// Refuses what makes no sense.
    pub(super) fn checked(&self) -> Result<(), String> {
        let spans = [("read_timeout", self.read_timeout), ("idle_timeout", self.idle_timeout)];
        for (name, span) in spans {
            if span.0 < Duration::from_secs(1) {
                return Err(format!("http.{name}: use at least `1s`"));
            }
        }
        if self.connections == 0 {
            return Err("http.connections: 0 would answer nobody; use at least 1".into());
        }
        if self.rate > MOST_REQUESTS || self.rate_burst > MOST_REQUESTS {
            return Err(format!(
                "http.rate, http.rate_burst: use at most {MOST_REQUESTS}, or a rate of 0 for as many as they like"
            ));
        }
        if self.rate > 0 && self.rate_burst == 0 {
            return Err("http.rate_burst: 0 would answer nobody; use at least 1".into());
        }
        Ok(())
    }
}

impl Default for Http {
    fn default() -> Self {
        Self {
            body_limit_bytes: 16 << 20,
            grace: ConfigDuration(Duration::ZERO),
            streams: 1_000,
            streams_per_token: 16,
            guesses: 20,
            open_metrics: false,
            read_timeout: ConfigDuration(Duration::from_secs(30)),
            idle_timeout: ConfigDuration(Duration::from_secs(120)),
            connections: 8_192,
            rate: 100,
            rate_burst: 400,
        }
    }
}
