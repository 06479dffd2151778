//! Reloads the files of the TLS certificate when they change.

use crate::state::SharedState;
use std::time::Duration;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(2);

/// Returns the SIGHUP signal, which triggers a reload, if TLS is on.
pub(crate) fn hangups(app: &SharedState) -> std::io::Result<Option<Signal>> {
    app.tls.as_ref().map(|_| signal(SignalKind::hangup())).transpose()
}

/// Reloads the files every few seconds, and after each signal of `told`, until `stop`.
pub(crate) async fn run(app: SharedState, mut told: Option<Signal>, mut stop: watch::Receiver<bool>) {
    let (Some(_), Some(told)) = (&app.tls, &mut told) else { return };
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = told.recv() => tracing::info!("SIGHUP: reload the certificate"),
            () = tokio::time::sleep(EVERY) => {}
        }
        let app = app.clone();
        // Reading may be slow, for example on a network file system.
        let looked = tokio::task::spawn_blocking(move || {
            app.tls.as_ref().map(|tls| tls.look(app.engine.clock().now()))
        });
        _ = looked.await;
    }
}
