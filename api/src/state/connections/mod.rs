//! Counters of connections, and the rate limits of callers.

pub(crate) mod rates;

use crate::config::Http;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use rates::{RateLimit, RateLimitKey, RateLimitStatus, RateLimiter};
use std::{
    net::SocketAddr,
    sync::{Mutex, PoisonError},
};
use store::Timestamp;

/// The origin of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// A body was not received in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body was not received in time")]
pub(crate) struct BodyTimeout;

/// Values of the label `phase`.
pub(crate) const HANDSHAKE: &str = "handshake";
pub(crate) const HEAD: &str = "head";
pub(crate) const BODY: &str = "body";
pub(crate) const ANSWER: &str = "answer";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByPhase {
    phase: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByKind {
    kind: &'static str,
}

/// The state of connections and callers.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// The limiters of authenticated callers and of all others: a flood of unknown callers does not affect authenticated ones.
    known: Mutex<RateLimiter>,
    strangers: Mutex<RateLimiter>,
    pace: Option<RateLimit>,
    connections: Gauge,
    full: Counter,
    slow: Family<ByPhase, Counter>,
    refused: Family<ByKind, Counter>,
}

impl ConnectionState {
    /// Creates the state from the settings, and registers its metrics.
    pub(crate) fn registered(registry: &mut Registry, settings: &Http) -> Self {
        let me = Self {
            known: Mutex::default(),
            strangers: Mutex::default(),
            pace: RateLimit::of(settings.rate, settings.rate_burst),
            connections: Gauge::default(),
            full: Counter::default(),
            slow: Family::default(),
            refused: Family::default(),
        };
        for phase in [HANDSHAKE, HEAD, BODY, ANSWER] {
            _ = me.slow.get_or_create(&ByPhase { phase });
        }
        for kind in RateLimitKey::KINDS {
            _ = me.refused.get_or_create(&ByKind { kind });
        }
        registry.register("http_connections", "Open connections", me.connections.clone());
        registry.register(
            "http_connections_full",
            "Times that the maximum number of connections was reached",
            me.full.clone(),
        );
        registry.register(
            "http_slow_clients",
            "Connections closed because a handshake, or the head or body of a request, was not received in time, or an answer was not read",
            me.slow.clone(),
        );
        registry.register(
            "http_rate_refused",
            "Requests over the rate limit, by type of caller",
            me.refused.clone(),
        );
        me
    }

    /// Counts an open connection until the returned value is dropped.
    pub(crate) fn opened(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }

    /// Counts that new connections wait for others to end.
    pub(crate) fn was_full(&self) {
        self.full.inc();
    }

    /// Counts a client that was too slow.
    pub(crate) fn was_slow(&self, phase: &'static str) {
        self.slow.get_or_create(&ByPhase { phase }).inc();
    }

    /// Takes one request from the limit of `who`, if there is a limit. The result says if the request is allowed.
    pub(crate) fn take(&self, who: RateLimitKey, now: Timestamp) -> Option<RateLimitStatus> {
        let pace = self.pace?;
        let kind = who.kind();
        let of = if matches!(who, RateLimitKey::Address(_)) { &self.strangers } else { &self.known };
        let share = of.lock().unwrap_or_else(PoisonError::into_inner).take(who, pace, now);
        if share.refused.is_some() {
            self.refused.get_or_create(&ByKind { kind }).inc();
        }
        Some(share)
    }
}

/// An open connection.
#[derive(Debug)]
pub(crate) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
