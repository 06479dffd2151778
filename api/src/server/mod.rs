//! `tenure serve`: creates the parts, runs them, and stops them in order.

mod assembly;
mod banner;
mod connections;
mod encryption;
pub(crate) mod jobs;
mod shared_key;

pub use assembly::ExtraWorkflows;

use crate::{
    auth::ensure_admin,
    config::{Config, admin_file},
    state::{SharedState, storage::Storage, targets},
};
use assembly::{assemble, world};
use banner::{banner, is_plaintext};
use encryption::StoreWithKeys;
use program::{exit::Failure, terminal::say};
use std::{
    io,
    net::SocketAddr,
    sync::{Arc, atomic::Ordering},
};
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
    sync::{oneshot, watch},
    task::JoinHandle,
};

/// Serves until SIGTERM or SIGINT, then stops in order. First `/readyz` reports it, and no work starts. After `http.grace` no requests are accepted, open ones
/// finish, leases are released, and the store is closed.
///
/// # Errors
/// A part cannot be created, or ends early.
pub async fn serve(config: Config, more: ExtraWorkflows) -> Result<(), Failure> {
    let storage = Storage::open(&config).await?;
    let served = serve_on(config, storage.clone(), more).await;
    let closed = storage.close().await;
    served?;
    closed?;
    tracing::info!("stopped");
    Ok(())
}

/// Binds the configured address.
async fn listen(config: &Config) -> Result<(TcpListener, SocketAddr), Failure> {
    let unbound = |e: io::Error| {
        let remedy = match e.kind() {
            io::ErrorKind::AddrInUse => {
                "; another program uses it: stop that program, or choose another address with --listen"
            }
            _ => "",
        };
        Failure::other(format!("cannot listen on {}: {e}{remedy}", config.listen))
    };
    let listener = TcpListener::bind(config.listen).await.map_err(unbound)?;
    let address = listener.local_addr().map_err(unbound)?;
    Ok((listener, address))
}

async fn serve_on(config: Config, storage: Storage, more: ExtraWorkflows) -> Result<(), Failure> {
    let world = world(&config)?;
    let kept = StoreWithKeys::of(&config, storage.store()).await?;
    let connected = targets::platform(&config, world).await?;
    let app = assemble(config, (storage, kept), connected, more)?;
    // First: from here on the clock is that of the database.
    jobs::clock_watch::check_skew(&app).await?;
    targets::reconcile_ledger(&app).await?;
    targets::record_classes(&app).await;
    app.engine.load_clock().await?;
    let (listener, address) = listen(&app.config).await?;
    // Created after the other parts, so that a failed start creates no token.
    let admin = ensure_admin(&app.engine, &admin_file(&app.config.data), app.storage.is_shared()).await?;

    let (tell_stop, stop) = watch::channel(false);
    let tell_stop = Arc::new(tell_stop);
    listen_for_signals(&app, tell_stop.clone())?;
    app.working.store(true, Ordering::Release);
    let engine = tokio::spawn(work(app.clone(), stop.clone(), tell_stop.clone()));
    let beside = jobs::spawn(&app, &stop)?;
    let (answered, over) = oneshot::channel();
    let denials = tokio::spawn(jobs::access_denials::run(app.clone(), over));
    let differs = if app.storage.is_shared() { shared_key::find_mismatch(&app).await } else { None };
    if let Some(why) = &differs {
        tracing::error!(why, "this server's key differs from that of the other servers");
    }
    if is_plaintext(&app, address) {
        tracing::warn!(%address, "tokens are sent unencrypted: see tls.certificate_file");
    }
    say(&banner(&app, address, admin.is_some()))?;
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
        served = serving => served.map_err(Failure::other)?,
        () = too_late => tracing::warn!("some requests did not finish in time; their connections are closed"),
    }
    tell_stop.send_replace(true);
    // No more refusals can occur: the rest is recorded.
    _ = answered.send(());
    denials.await.map_err(Failure::other)?;
    let worked = engine.await.map_err(Failure::other)?;
    for task in beside {
        task.await.map_err(Failure::other)?;
    }
    worked
}

/// Runs executions; if the engine ends early, the server ends too.
async fn work(
    app: SharedState,
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

/// The first signal stops in order, the second one immediately.
fn listen_for_signals(
    app: &SharedState,
    tell_stop: Arc<watch::Sender<bool>>,
) -> Result<JoinHandle<()>, Failure> {
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
                tracing::warn!("stopping immediately; acknowledged data is kept");
                std::process::exit(130);
            }
            tracing::info!("stopping after a signal");
            app.stopping.store(true, Ordering::Release);
            tell_stop.send_replace(true);
        }
    }))
}
