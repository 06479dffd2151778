//! Connections and those who ask on them: what is counted of them, and the rates that callers are held to.

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

/// From where a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerAddress(pub(crate) SocketAddr);

/// A body did not come in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body did not come in time")]
pub(crate) struct BodyTimeout;

/// Values of `phase`.
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

/// What is known at the edge of those who ask.
#[derive(Debug)]
pub(crate) struct ConnectionState {
    /// Of callers who have proved who they are, and of all others: a flood of strangers takes nobody's place who is known.
    known: Mutex<RateLimiter>,
    strangers: Mutex<RateLimiter>,
    pace: Option<RateLimit>,
    connections: Gauge,
    full: Counter,
    slow: Family<ByPhase, Counter>,
    refused: Family<ByKind, Counter>,
}

impl ConnectionState {
    /// As the settings say, with its metrics named in `registry`.
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
        registry.register("http_connections", "Connections that are open", me.connections.clone());
        registry.register(
            "http_connections_full",
            "Times that as many connections were open as there may be",
            me.full.clone(),
        );
        registry.register(
            "http_slow_clients",
            "Connections ended because a handshake, the head or the body of a request did not come in time, or an answer was not taken",
            me.slow.clone(),
        );
        registry.register(
            "http_rate_refused",
            "Requests refused for how many their caller sent, by what the caller is",
            me.refused.clone(),
        );
        me
    }

    /// A connection is open until what is returned is dropped.
    pub(crate) fn opened(&self) -> OpenConnection {
        self.connections.inc();
        OpenConnection(self.connections.clone())
    }

    /// Others wait for one to end.
    pub(crate) fn was_full(&self) {
        self.full.inc();
    }

    /// A client was too slow.
    pub(crate) fn was_slow(&self, phase: &'static str) {
        self.slow.get_or_create(&ByPhase { phase }).inc();
    }

    /// Takes one request from what `who` may send, if that is bounded. Whether it may be answered, the share says.
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

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct OpenConnection(Gauge);

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.dec();
    }
}
