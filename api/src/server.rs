//! `tenure serve`: the parts put together, run, and stopped in order.

pub(crate) mod connections;
pub(crate) mod encryption;
pub(crate) mod jobs;
pub(crate) mod shared_key;

use crate::{
    auth::{
        Token, ensure_admin,
        policy::{self, Book},
    },
    config::Config,
    exit::{Exit, Failure},
    http, notify, oidc,
    server::{
        connections::Edge,
        encryption::Kept,
        jobs::{audit_sealing, batches, housekeeping, retention, schedules, simulated_observations},
    },
    state::{
        App, Shared, access_denials, progress::Paces, status_metrics::Standing, storage::Storage, targets,
        token_usage,
    },
    telemetry::metrics::{Audited, Refusals, Requests},
    tls::{self, Tls},
};
use backends::{
    Connected,
    simulated::{LocalWorld, Random, RemoteWorld, Script, World},
};
use engine::{Clock as _, Engine, Metrics, SystemClock, Unsound};
use prometheus_client::registry::Registry;
use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{Notify, oneshot, watch},
    task::JoinHandle,
};
use workflows::{
    audit,
    destruction::{KeyFile, Signer},
    platform::Platform,
    signing::{KeyFile, Signer},
};

/// The folder of the embedded store within a data folder.
pub(crate) fn store_dir(data: &Path) -> PathBuf {
    data.join("store")
}

/// The file with the first admin's token within a data folder.
pub(crate) fn admin_file(data: &Path) -> PathBuf {
    data.join("admin.token")
}

/// Workflows beside those of the product, or in place of one of the same name.
pub(crate) type Also = fn(Engine<Platform>) -> Result<Engine<Platform>, Unsound>;

/// Serves until SIGTERM or SIGINT, then stops in order: `/readyz` says so at once, and no work is begun any more; after
/// `http.grace` no new requests are taken, those under way end, leases are handed back, the store is closed.
///
/// # Errors
/// When a part cannot be made or ends by itself.
pub(crate) async fn serve(config: Config, more: Also) -> Result<(), Failure> {
    let storage = Storage::open(&config).await?;
    let served = serve_on(config, storage.clone(), more).await;
    let closed = storage.close().await;
    served?;
    closed?;
    tracing::info!("stopped");
    Ok(())
}

/// Takes the address that is asked for.
async fn listen(config: &Config) -> Result<(TcpListener, SocketAddr), Failure> {
    let unbound = |e: io::Error| {
        let remedy = match e.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program has it: stop that one, or choose another by --listen"
            }
            _ => "",
        };
        Failure::other(format!("cannot listen on {}: {e}{remedy}", config.listen))
    };
    let listener = TcpListener::bind(config.listen).await.map_err(unbound)?;
    let address = listener.local_addr().map_err(unbound)?;
    Ok((listener, address))
}

async fn serve_on(config: Config, storage: Storage, more: Also) -> Result<(), Failure> {
    let world = world(&config)?;
    let kept = Kept::of(&config, storage.store()).await?;
    let connected = targets::platform(&config, world).await?;
    let app = assemble(config, (storage, kept), connected, more)?;
    targets::agree(&app).await?;
    let (listener, address) = listen(&app.config).await?;
    // Shown once: not by a start that comes to nothing.
    let admin = ensure_admin(&app.engine, &admin_file(&app.config.data), app.storage.is_shared()).await?;

    let (tell_stop, stop) = watch::channel(false);
    let tell_stop = Arc::new(tell_stop);
    listen_for_signals(&app, tell_stop.clone())?;
    app.working.store(true, Ordering::Release);
    let engine = tokio::spawn(work(app.clone(), stop.clone(), tell_stop.clone()));
    let beside = beside(&app, &stop)?;
    let (answered, over) = oneshot::channel();
    let denials = tokio::spawn(access_denials::run(app.clone(), over));
    let differs = if app.storage.is_shared() { crate::server::shared_key::differs(&app).await } else { None };
    if let Some(why) = &differs {
        tracing::error!(why, "this server's key is not that of the others");
    }
    if is_in_the_clear(&app, address) {
        tracing::warn!(%address, "tokens go over the network in the clear: see tls.certificate_file");
    }
    crate::cli::say(&banner(&app, address, admin.as_ref()))?;
    tracing::info!(%address, data = %app.config.data.display(), "serving");

    let (drain, grace) = (app.config.engine.drain.0, app.config.http.grace.0);
    let mut until = stop.clone();
    let closing = app.clone();
    let graceful = async move {
        _ = until.wait_for(|stop| *stop).await;
        tokio::time::sleep(grace).await;
        closing.closing.store(true, Ordering::Release);
    };
    let serving = connections::serve(&app, listener, graceful);
    let mut until = stop;
    let too_late = async {
        _ = until.wait_for(|stop| *stop).await;
        tokio::time::sleep(grace.saturating_add(drain)).await;
    };
    tokio::select! {
        () = serving => {}
        () = too_late => tracing::warn!("some requests did not end in time; their connections are closed"),
    }
    tell_stop.send_replace(true);
    // Nobody is refused any more: what is left goes on record.
    _ = answered.send(());
    denials.await.map_err(Failure::other)?;
    let worked = engine.await.map_err(Failure::other)?;
    for task in beside {
        task.await.map_err(Failure::other)?;
    }
    worked
}

/// What goes on beside the answers, until it is told to stop.
fn beside(app: &Shared, stop: &watch::Receiver<bool>) -> Result<Vec<JoinHandle<()>>, Failure> {
    let hangups = tls::hangups(app).map_err(Failure::other)?;
    #[cfg(feature = "otlp")]
    let follower = crate::telemetry::traces::Follower::of(app)
        .map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    Ok(vec![
        #[cfg(feature = "otlp")]
        tokio::spawn(crate::telemetry::traces::run(app.clone(), follower, stop.clone())),
        tokio::spawn(housekeeping::run(app.clone(), stop.clone())),
        tokio::spawn(schedules::run(app.clone(), stop.clone())),
        tokio::spawn(batches::run(app.clone(), stop.clone())),
        tokio::spawn(simulated_observations::run(app.clone(), stop.clone())),
        tokio::spawn(audit_sealing::run(app.clone(), stop.clone())),
        tokio::spawn(notify::run(app.clone(), stop.clone())),
        tokio::spawn(token_usage::run(app.clone(), stop.clone())),
        tokio::spawn(retention::run(app.clone(), stop.clone())),
        tokio::spawn(http::tell_what_happens(app.clone(), stop.clone())),
        tokio::spawn(policy::run(app.clone(), stop.clone())),
        tokio::spawn(tls::run(app.clone(), hangups, stop.clone())),
    ])
}

/// The world that actions act on.
fn world(config: &Config) -> Result<Arc<dyn World>, Failure> {
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

/// Through whom people sign in, if the settings name one.
fn provider(config: &Config) -> Result<Option<oidc::Provider>, Failure> {
    oidc::install_signatures();
    oidc::Provider::of(&config.oidc).map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))
}

/// What tells people, as the settings say.
fn outbox(config: &Config, engine: &Engine<Platform>) -> Result<notify::Outbox, Failure> {
    notify::Outbox::of(&config.notify, engine.store().clone(), engine.clock().clone())
        .map(|outbox| outbox.traced(!config.traces.url.is_empty()))
        .map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))
}

fn options(config: &Config, storage: &Storage) -> engine::Options {
    engine::Options {
        holder: storage.holder(),
        concurrency: config.engine.concurrency,
        lease: config.engine.lease.0,
        poison_after: config.engine.poison_after,
        drain: config.engine.drain.0,
        relay: storage.is_shared().then_some(RELAY),
        second_person: config.engine.second_person().map(str::to_owned).collect(),
        ..engine::Options::default()
    }
}

fn assemble(
    config: Config,
    (storage, kept): (Storage, Kept),
    Connected { platform, agents }: Connected,
    more: Also,
) -> Result<Shared, Failure> {
    let mut registry = Registry::with_prefix("tenure");
    let metrics = Metrics::registered(&mut registry);
    let requests = Requests::registered(&mut registry);
    let audited = Audited::registered(&mut registry);
    let edge = Edge::registered(&mut registry, &config.http);
    #[cfg(feature = "otlp")]
    let spans = crate::telemetry::traces::Spans::registered(&mut registry);
    let refusing = http::codes().into_iter().filter(|(_, status, ..)| [401, 403].contains(status));
    let refusals = Refusals::registered(&mut registry, refusing.map(|(code, ..)| code));
    let unusable = |why: String| Failure::new(Exit::Usage, format!("configuration: {why}"));
    let tls = Tls::of(&config.tls, &mut registry, SystemClock.now()).map_err(unusable)?;
    let pace =
        audit::Pace { entries: config.audit.checkpoint_entries, every: config.audit.checkpoint_every.0 };
    let (freed, committed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let options = options(&config, &storage);
    let signer: Arc<dyn Signer> = Arc::new(KeyFile::at(config.data.join(KeyFile::NAME)));
    let store = kept.store.clone();
    let platform = kept.before(platform.signed_by(signer.clone()));
    let engine = workflows::registered(Engine::new(store, Arc::new(SystemClock), platform))
        .and_then(more)
        .map_err(Failure::other)?
        .options(options)
        .metrics(metrics)
        .watched(rings(freed.clone(), committed.clone()));
    let drawn = engine.diagrams();
    let known: Vec<String> = drawn.iter().map(|drawn| drawn.workflow.clone()).collect();
    config.retention.check(&known).map_err(unusable)?;
    let paces = Paces::of(&drawn);
    let provider = provider(&config)?;
    let bounds = (config.http.streams, config.http.streams_per_token);
    Ok(Arc::new(App {
        provider,
        outbox: outbox(&config, &engine)?,
        feed: Arc::new(http::Feed::new(committed, drawn, bounds)),
        auditor: audit::Auditor::new(engine.clone(), signer, pace),
        audited,
        edge,
        denials: access_denials::Denials::default(),
        uses: token_usage::Uses::default(),
        refusals,
        access: Book::open(&config.access.policies).map_err(unusable)?,
        #[cfg(feature = "otlp")]
        spans,
        tls,
        standing: Standing::default(),
        paces,
        engine,
        agents,
        storage,
        config,
        registry,
        requests,
        stopping: AtomicBool::new(false),
        closing: AtomicBool::new(false),
        working: AtomicBool::new(false),
        freed,
        told: Notify::new(),
        batched: Arc::default(),
    }))
}

/// What is rung when something was committed, and when an execution has moved.
fn rings(
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

/// Works on executions; if the engine ends by itself, the server ends with it.
async fn work(
    app: Shared,
    mut stop: watch::Receiver<bool>,
    tell_stop: Arc<watch::Sender<bool>>,
) -> Result<(), Failure> {
    let asked = async move { _ = stop.wait_for(|stop| *stop).await };
    let worked = app.engine.run(asked).await;
    app.working.store(false, Ordering::Release);
    app.stopping.store(true, Ordering::Release);
    if let Err(error) = &worked {
        tracing::error!(%error, "the engine has stopped");
    }
    tell_stop.send_replace(true);
    Ok(worked?)
}

/// The first signal stops in order, the second at once.
fn listen_for_signals(app: &Shared, tell_stop: Arc<watch::Sender<bool>>) -> Result<JoinHandle<()>, Failure> {
    let mut term = signal(SignalKind::terminate()).map_err(Failure::other)?;
    let mut int = signal(SignalKind::interrupt()).map_err(Failure::other)?;
    let app = app.clone();
    Ok(tokio::spawn(async move {
        for stops in 0_u8.. {
            tokio::select! {
                _ = term.recv() => {}
                _ = int.recv() => {}
            }
            if stops > 0 {
                tracing::warn!("stopping at once; what was acknowledged is kept");
                std::process::exit(130);
            }
            tracing::info!("asked to stop");
            app.stopping.store(true, Ordering::Release);
            tell_stop.send_replace(true);
        }
    }))
}

/// Whether others reach the server, and without TLS.
fn is_in_the_clear(app: &App, address: SocketAddr) -> bool {
    app.tls.is_none() && !address.ip().to_canonical().is_loopback()
}

/// The first thing that `serve` says.
fn banner(app: &App, address: SocketAddr, admin: Option<&Token>) -> String {
    let data = app.config.data.display();
    let store = match app.config.store.options() {
        None => "embedded store".to_owned(),
        Some(options) => format!("store: {}, schema {}", options.url, options.schema),
    };
    let scheme = if app.tls.is_some() { "https" } else { "http" };
    let mut text = format!(
        "tenure {} listens on {scheme}://{address}\ndata: {data} ({store})\n",
        env!("CARGO_PKG_VERSION")
    );
    let world = match app.config.platform.as_str() {
        Config::LOCAL => format!("in {data}/world.log"),
        url => format!("at {url}"),
    };
    text.push_str(&targets::said(app, &world));
    if is_in_the_clear(app, address) {
        text.push_str(CLEAR);
    }
    if app.storage.is_shared() && app.config.platform == Config::LOCAL {
        text.push_str(
            "WARNING: this simulated world is this server's alone. Another server on the same database has another, finds nothing of\n\
             what this one made, and undoes it: run one server, or give all of them one `platform`\n",
        );
    }
    if let Some(token) = admin {
        let file = admin_file(&app.config.data);
        text.push_str(&format!(
            "admin token: {} (shown this once; kept in {})\n",
            token.reveal(),
            file.display()
        ));
    }
    let mut flags = String::new();
    if app.storage.is_shared() && !admin_file(&app.config.data).exists() {
        text.push_str(
            "admin token: drawn by the first server on this database; its admin.token serves here too\n",
        );
        flags.push_str(" --token TOKEN");
    }
    if app.config.listen != Config::default().listen || app.tls.is_some() {
        flags.push_str(&format!(" --server {scheme}://{address}"));
    }
    if app.config.data != Config::default().data {
        flags.push_str(&format!(" --data {data}"));
    }
    text.push_str(&format!(
        "try next:\n  tenure{flags} fleet import NODES.csv --cluster eu-1 --region eu\n  \
         tenure{flags} tenant onboard -f TENANT.yaml --wait\n  \
         tenure{flags} approvals list\n(`tenure demo` shows it all on a fleet of its own)\n"
    ));
    text
}

/// What is said of a server that others reach without TLS.
const CLEAR: &str = "WARNING: tokens go over the network in the clear: name a certificate (`tls.certificate_file`, `tls.key_file`), or let only a\n\
    proxy with TLS reach this address\n";

/// How long a request waits for a server that can read the execution it is about.
const RELAY: Duration = Duration::from_secs(10);

/// How long a server may take to answer a client.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(60);
