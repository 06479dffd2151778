//! Shared state of the server, used by handlers and background jobs.

pub(crate) mod access_denials;
pub(crate) mod change_feed;
pub(crate) mod connections;
pub(crate) mod document_pool;
pub(crate) mod progress;
pub(crate) mod retention;
pub(crate) mod status_metrics;
pub(crate) mod storage;
pub(crate) mod targets;
pub(crate) mod token_usage;

use crate::{
    auth::policy::PolicyStore,
    config::Config,
    notify::Outbox,
    oidc::Provider,
    telemetry::metrics::{AuditMetrics, DenialMetrics, ObservationMetrics, RequestMetrics},
    tls::Tls,
};
use access_denials::AccessDenials;
use backends::agents::Agents;
use change_feed::ChangeFeed;
use connections::ConnectionState;
use document_pool::DocumentPool;
use engine::Engine;
use progress::DurationStatistics;
use prometheus_client::registry::Registry;
use status_metrics::StatusMetrics;
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use storage::Storage;
use token_usage::TokenUsage;
use tokio::sync::{Notify, watch};
use workflows::{audit::Auditor, platform::Platform};

/// The interval of checks while the store is on hold.
const MAINTENANCE_POLL: Duration = Duration::from_secs(1);

/// The parts of the server, shared by all requests.
pub(crate) struct ServerState {
    /// The engine with its store and platform.
    pub(crate) engine: Engine<Platform>,
    /// The queues of orders for node agents.
    pub(crate) agents: Arc<Agents>,
    /// The storage under the engine's store.
    pub(crate) storage: Storage,
    /// The settings.
    pub(crate) config: Config,
    /// The registry of metrics.
    pub(crate) registry: Registry,
    /// Counts requests.
    pub(crate) requests: RequestMetrics,
    /// Seals and signs the audit.
    pub(crate) auditor: Auditor,
    /// Exports the lag of the audit.
    pub(crate) audited: AuditMetrics,
    /// Counts observations of clusters.
    pub(crate) observations: ObservationMetrics,
    /// The access policies.
    pub(crate) access: PolicyStore,
    /// The TLS certificate, if any.
    pub(crate) tls: Option<Tls>,
    /// The uses of tokens, before they are written.
    pub(crate) uses: TokenUsage,
    /// The state of connections and rate limits.
    pub(crate) edge: ConnectionState,
    /// Parses and plans documents.
    pub(crate) documents: DocumentPool,
    /// Refused requests, before they are recorded for the audit.
    pub(crate) denials: AccessDenials,
    /// Counts refused requests.
    pub(crate) refusals: DenialMetrics,
    /// Estimates the progress of executions.
    pub(crate) paces: DurationStatistics,
    /// Exports metrics of the platform's state.
    pub(crate) standing: StatusMetrics,
    /// Set once the server has been asked to stop.
    pub(crate) stopping: AtomicBool,
    /// Set once it accepts no more changes: after `http.grace`.
    pub(crate) closing: AtomicBool,
    /// Set once the bootstrap token is known to have ended.
    pub(crate) bootstrap_ended: AtomicBool,
    /// Set while the engine runs.
    pub(crate) working: AtomicBool,
    /// Notified when capacity may have become free.
    pub(crate) freed: Arc<Notify>,
    /// Notified by commands to schedules.
    pub(crate) told: Notify,
    /// The identity provider, if configured.
    pub(crate) provider: Option<Provider>,
    /// Notified when a batch has started.
    pub(crate) batched: Arc<Notify>,
    /// Sends notifications.
    pub(crate) outbox: Outbox,
    /// Counts spans of traces.
    #[cfg(feature = "otlp")]
    pub(crate) spans: crate::telemetry::traces::SpanMetrics,
    /// Sends changes to streams.
    pub(crate) feed: Arc<ChangeFeed>,
}

impl ServerState {
    /// Waits until the store is not on hold. Returns false if the server stops first.
    pub(crate) async fn free(&self, stop: &mut watch::Receiver<bool>) -> bool {
        loop {
            match self.engine.store().current_hold().await {
                // A server with a wrong clock does no time-dependent work.
                Ok(None) if self.engine.refuses_work() => {}
                Ok(None) => return true,
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::warn!(%error, "cannot read the hold of the store; trying again")
                }
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return false,
                () = tokio::time::sleep(MAINTENANCE_POLL) => {}
            }
        }
    }
}

/// A shared reference to the state.
pub(crate) type SharedState = Arc<ServerState>;
