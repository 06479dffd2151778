//! Shared server state: what request handlers and background jobs use.

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
    telemetry::metrics::{AuditMetrics, DenialMetrics, RequestMetrics},
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

/// How often those who wait for a held store look at it.
const MAINTENANCE_POLL: Duration = Duration::from_secs(1);

/// The server's parts. Shared by all requests.
pub(crate) struct ServerState {
    /// The engine, its store and its platform.
    pub(crate) engine: Engine<Platform>,
    /// The queues of commands for the agents of nodes.
    pub(crate) agents: Arc<Agents>,
    /// What the engine's store lies on.
    pub(crate) storage: Storage,
    /// The settings in force.
    pub(crate) config: Config,
    /// Names every metric.
    pub(crate) registry: Registry,
    /// Counts requests.
    pub(crate) requests: RequestMetrics,
    /// Seals and signs what was done.
    pub(crate) auditor: Auditor,
    /// Shows how far that is behind.
    pub(crate) audited: AuditMetrics,
    /// By which policies it is decided who may do what.
    pub(crate) access: PolicyStore,
    /// With which certificate TLS is spoken, if it is.
    pub(crate) tls: Option<Tls>,
    /// When tokens were used, on its way to where they are kept.
    pub(crate) uses: TokenUsage,
    /// What is known of those who ask: connections, and how much each may send.
    pub(crate) edge: ConnectionState,
    /// Where documents are read and planned.
    pub(crate) documents: DocumentPool,
    /// Requests that were refused, on their way to the audit.
    pub(crate) denials: AccessDenials,
    /// Counts those.
    pub(crate) refusals: DenialMetrics,
    /// Tells how far executions are.
    pub(crate) paces: DurationStatistics,
    /// Shows how things stand.
    pub(crate) standing: StatusMetrics,
    /// Set once the server has been asked to stop.
    pub(crate) stopping: AtomicBool,
    /// Set once it changes nothing any more: `http.grace` later.
    pub(crate) closing: AtomicBool,
    /// Whether the first admin's token is known to have ended.
    pub(crate) bootstrap_ended: AtomicBool,
    /// Set while the engine works.
    pub(crate) working: AtomicBool,
    /// Rung whenever capacity may have become free.
    pub(crate) freed: Arc<Notify>,
    /// Rung whenever people told a schedule something.
    pub(crate) told: Notify,
    /// Through whom people sign in, if the settings name one.
    pub(crate) provider: Option<Provider>,
    /// Rung when a batch has begun.
    pub(crate) batched: Arc<Notify>,
    /// Tells people what they are to be told.
    pub(crate) outbox: Outbox,
    /// Counts spans of traces.
    #[cfg(feature = "otlp")]
    pub(crate) spans: crate::telemetry::traces::SpanMetrics,
    /// Tells those who watch what happens.
    pub(crate) feed: Arc<ChangeFeed>,
}

impl ServerState {
    /// Waits until the store is not held. False when the server stops before that.
    pub(crate) async fn free(&self, stop: &mut watch::Receiver<bool>) -> bool {
        loop {
            match self.engine.store().current_hold().await {
                // A server with a wrong clock does nothing that goes by the clock.
                Ok(None) if self.engine.refuses_work() => {}
                Ok(None) => return true,
                Ok(Some(_)) => {}
                Err(error) => {
                    tracing::warn!(%error, "whether the store is held could not be asked; trying again")
                }
            }
            tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return false,
                () = tokio::time::sleep(MAINTENANCE_POLL) => {}
            }
        }
    }
}

/// A handle on the parts.
pub(crate) type SharedState = Arc<ServerState>;
