//! The HTTP server.

use super::ConfigDuration;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Limits of the HTTP server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Http {
    /// The maximum size of a body, in bytes. Default 16 MiB.
    pub body_limit_bytes: usize,
    /// How long a stopping server still answers while `/readyz` reports that it is not ready, so that load balancers can remove it. Default `0s`.
    pub grace: ConfigDuration,
    /// The maximum number of event streams. Default 1000.
    pub streams: usize,
    /// The maximum number of event streams per token. Default 16.
    pub streams_per_token: usize,
    /// The number of different invalid tokens or sign-ins from one IP address within a minute that are answered without delay. Default 20.
    pub guesses: u32,
    /// True if all callers may read `/metrics` and the full checks of `/readyz`. Otherwise remote callers need a token. Default false.
    pub open_metrics: bool,
    /// The timeout of the head of a request, and of its body; a body gets one more second per 64 KiB. Default `30s`.
    pub read_timeout: ConfigDuration,
    /// The timeout of a connection without requests, or whose answer is not read. Default `2m`.
    pub idle_timeout: ConfigDuration,
    /// The maximum number of connections; further ones wait. Default 8192.
    pub connections: usize,
    /// The sustained rate of requests to `/v1` per caller, per second; 0 for no limit. Default 100.
    pub rate: u32,
    /// The maximum burst of requests after a pause. Default 400.
    pub rate_burst: u32,
}

/// The maximum time to answer a client.
pub const ANSWER_WITHIN: Duration = Duration::from_secs(60);

/// The maximum of a rate or a burst.
const MOST_REQUESTS: u32 = 1_000_000;

impl Http {
    /// Rejects invalid settings.
    pub(super) fn checked(&self) -> Result<(), String> {
        let spans = [("read_timeout", self.read_timeout), ("idle_timeout", self.idle_timeout)];
        for (name, span) in spans {
            if span.0 < Duration::from_secs(1) {
                return Err(format!("http.{name}: use at least `1s`"));
            }
        }
        if self.connections == 0 {
            return Err("http.connections: 0 is not allowed; use at least 1".into());
        }
        if self.rate > MOST_REQUESTS || self.rate_burst > MOST_REQUESTS {
            return Err(format!(
                "http.rate, http.rate_burst: use at most {MOST_REQUESTS}, or a rate of 0 for no limit"
            ));
        }
        if self.rate > 0 && self.rate_burst == 0 {
            return Err("http.rate_burst: 0 is not allowed; use at least 1".into());
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
