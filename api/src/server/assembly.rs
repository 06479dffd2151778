//! Creates the state of the server from its settings.

use super::encryption::StoreWithKeys;
#[cfg(feature = "otlp")]
use crate::telemetry::traces::SpanMetrics;
use crate::{
    auth::policy::PolicyStore,
    config::Config,
    http, notify, oidc,
    state::{
        ServerState, SharedState, access_denials::AccessDenials, change_feed::ChangeFeed,
        connections::ConnectionState, document_pool::DocumentPool, progress::DurationStatistics,
        status_metrics::StatusMetrics, storage::Storage, token_usage::TokenUsage,
    },
    telemetry::metrics::{AuditMetrics, DenialMetrics, ObservationMetrics, RequestMetrics},
    tls::Tls,
};
use backends::{
    Connected,
    simulated::{LocalWorld, Random, RemoteWorld, Script, World},
};
use engine::{Clock as _, Engine, InvalidWorkflow, Metrics, Separation, SharedClock, SystemClock};
use program::exit::{Exit, Failure};
use prometheus_client::registry::Registry;
use std::{
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};
use tokio::sync::Notify;
use workflows::{
    audit,
    platform::Platform,
    signing::{KeyFile, Signer},
};

/// How long a request waits for a server that can read its execution.
const RELAY: Duration = Duration::from_secs(10);

/// Workflows in addition to those of the product, or replacements with the same name.
pub type ExtraWorkflows = fn(Engine<Platform>) -> Result<Engine<Platform>, InvalidWorkflow>;

/// Creates the platform on which actions work.
pub(super) fn world(config: &Config) -> Result<Arc<dyn World>, Failure> {
    if config.platform != Config::LOCAL {
        let remote = RemoteWorld::new(&config.platform).map_err(Failure::other)?;
        return Ok(Arc::new(remote));
    }
    let file = config.data.join("world.log");
    let broken = |e| Failure::other(format!("the simulated world in {}: {e}", file.display()));
    let world = LocalWorld::persistent(&file).map_err(broken)?;
    let slow_ms = config.simulated.delay_ms;
    if slow_ms > 0 {
        let always = Random { slow: 1_000, slow_ms, ..Random::default() };
        world.script(Script { faults: Vec::new(), random: Some(always) });
    }
    Ok(Arc::new(world))
}

/// Creates the identity provider, if configured.
fn provider(config: &Config) -> Result<Option<oidc::Provider>, Failure> {
    oidc::install_signatures();
    oidc::Provider::of(&config.oidc).map_err(invalid_setting)
}

/// Creates the notifications from the settings.
fn outbox(config: &Config, engine: &Engine<Platform>) -> Result<notify::Outbox, Failure> {
    notify::Outbox::of(&config.notify, engine.store().clone(), engine.clock().clone())
        .map(|outbox| outbox.traced(!config.traces.url.is_empty()))
        .map_err(invalid_setting)
}

fn options(config: &Config, storage: &Storage) -> engine::Options {
    engine::Options {
        holder: storage.holder(),
        concurrency: config.engine.concurrency,
        lease: config.engine.lease.0,
        poison_after: config.engine.poison_after,
        drain: config.engine.drain.0,
        relay: storage.is_shared().then_some(RELAY),
        separation: if config.trial { Separation::NotEnforced } else { Separation::Enforced },
        second_person: config.engine.second_person().map(str::to_owned).collect(),
        ..engine::Options::default()
    }
}

/// Creates the state of the server.
///
/// # Errors
/// The invalid setting.
pub(super) fn assemble(
    config: Config,
    (storage, kept): (Storage, StoreWithKeys),
    Connected { platform, agents }: Connected,
    more: ExtraWorkflows,
) -> Result<SharedState, Failure> {
    let mut registry = Registry::with_prefix("tenure");
    let metrics = Metrics::register(&mut registry);
    let requests = RequestMetrics::registered(&mut registry);
    let audited = AuditMetrics::registered(&mut registry);
    let observations = ObservationMetrics::registered(&mut registry);
    let edge = ConnectionState::registered(&mut registry, &config.http);
    #[cfg(feature = "otlp")]
    let spans = SpanMetrics::registered(&mut registry);
    let refusing = http::codes().into_iter().filter(|(_, status, ..)| [401, 403].contains(status));
    let refusals = DenialMetrics::registered(&mut registry, refusing.map(|(code, ..)| code));
    let tls = Tls::of(&config.tls, &mut registry, SystemClock.now()).map_err(invalid_setting)?;
    let pace =
        audit::Pace { entries: config.audit.checkpoint_entries, every: config.audit.checkpoint_every.0 };
    let (freed, committed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let signer: Arc<dyn Signer> = Arc::new(KeyFile::new(config.data.join(KeyFile::NAME)));
    let engine = engine(options(&config, &storage), kept, platform.with_signer(signer.clone()), more)?
        .with_metrics(metrics)
        .with_edge_observer(commit_notifier(freed.clone(), committed.clone()));
    let drawn = engine.diagrams();
    let known: Vec<String> = drawn.iter().map(|drawn| drawn.workflow.clone()).collect();
    config.retention.check(&known).map_err(invalid_setting)?;
    let paces = DurationStatistics::of(&drawn);
    let provider = provider(&config)?;
    let bounds = (config.http.streams, config.http.streams_per_token);
    Ok(Arc::new(ServerState {
        provider,
        outbox: outbox(&config, &engine)?,
        feed: Arc::new(ChangeFeed::new(committed, drawn, bounds)),
        auditor: audit::Auditor::new(engine.clone(), signer, pace),
        audited,
        observations,
        edge,
        documents: DocumentPool::default(),
        denials: AccessDenials::default(),
        uses: TokenUsage::default(),
        refusals,
        access: PolicyStore::open(&config.access.policies).map_err(invalid_setting)?,
        #[cfg(feature = "otlp")]
        spans,
        tls,
        standing: StatusMetrics::default(),
        paces,
        engine,
        agents,
        storage,
        config,
        registry,
        requests,
        stopping: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        bootstrap_ended: AtomicBool::new(false),
        working: AtomicBool::new(false),
        freed,
        told: Notify::new(),
        batched: Arc::default(),
    }))
}

/// Creates the engine with its workflows, store and platform.
fn engine(
    options: engine::Options,
    kept: StoreWithKeys,
    platform: Platform,
    more: ExtraWorkflows,
) -> Result<Engine<Platform>, Failure> {
    let store = kept.store.clone();
    // On a database all servers go by its clock, and by the machine's own on an embedded store.
    let clock = Arc::new(SharedClock::new(SystemClock));
    let engine = Engine::new(store, clock, kept.before(platform));
    let engine = workflows::registered(engine).and_then(more).map_err(Failure::other)?;
    Ok(engine.with_options(options))
}

/// The failure of an invalid setting.
fn invalid_setting(why: String) -> Failure {
    Failure::new(Exit::Usage, format!("configuration: {why}"))
}

/// Returns the notifier for commits and for changed executions.
fn commit_notifier(
    moved: Arc<Notify>,
    committed: Arc<Notify>,
) -> impl Fn(store::ExecutionId, &[engine::Edge]) + Send + Sync + 'static {
    move |_, edges| {
        committed.notify_one();
        if !edges.is_empty() {
            moved.notify_one();
        }
    }
}
