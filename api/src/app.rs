//! What every answer of the server rests on.

use crate::{
    config::Config,
    metrics::{Audited, Requests},
    storage::Storage,
};
use engine::Engine;
use prometheus_client::registry::Registry;
use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, atomic::AtomicBool},
};
use tokio::sync::Notify;
use workflows::{audit::Auditor, platform::Platform};

/// The server's parts. Shared by all requests.
pub(crate) struct App {
    /// The engine, its store and its platform.
    pub(crate) engine: Engine<Platform>,
    /// What the engine's store lies on.
    pub(crate) storage: Storage,
    /// The settings in force.
    pub(crate) config: Config,
    /// Names every metric.
    pub(crate) registry: Registry,
    /// Counts requests.
    pub(crate) requests: Requests,
    /// Seals and signs what was done.
    pub(crate) auditor: Auditor,
    /// Shows how far that is behind.
    pub(crate) audited: Audited,
    /// Set once the server has been asked to stop.
    pub(crate) stopping: AtomicBool,
    /// Set while the engine works.
    pub(crate) working: AtomicBool,
    /// Idempotency keys whose first request is being answered.
    pub(crate) keys: Mutex<BTreeSet<String>>,
    /// Rung whenever capacity may have become free.
    pub(crate) freed: Arc<Notify>,
    /// Rung whenever people told a schedule something.
    pub(crate) told: Notify,
    /// Rung when a batch has begun.
    pub(crate) batched: Arc<Notify>,
}

/// A handle on the parts.
pub(crate) type Shared = Arc<App>;
