//! Reads the files of the TLS certificate again when they have changed.

use crate::state::SharedState;
use std::time::Duration;
use tokio::{
    signal::unix::{Signal, SignalKind, signal},
    sync::watch,
};

/// How often it is looked whether the files hold something else.
const EVERY: Duration = Duration::from_secs(2);

/// Whoever tells the server to read its files again: SIGHUP, where it has any to read.
pub(crate) fn hangups(app: &SharedState) -> std::io::Result<Option<Signal>> {
    app.tls.as_ref().map(|_| signal(SignalKind::hangup())).transpose()
}

/// Reads the files again every few seconds, and whenever `told` says so, until `stop`.
pub(crate) async fn run(app: SharedState, mut told: Option<Signal>, mut stop: watch::Receiver<bool>) {
    let (Some(_), Some(told)) = (&app.tls, &mut told) else { return };
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = told.recv() => tracing::info!("told to read the certificate again"),
            () = tokio::time::sleep(EVERY) => {}
        }
        let app = app.clone();
        // Files may be where a read takes long.
        let looked = tokio::task::spawn_blocking(move || {
            app.tls.as_ref().map(|tls| tls.look(app.engine.clock().now()))
        });
        _ = looked.await;
    }
}
