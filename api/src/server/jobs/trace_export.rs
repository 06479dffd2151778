//! Sends traces of executions to the collector, shortly after their events.

use crate::{
    state::SharedState,
    telemetry::traces::{EVERY, TraceExporter},
};
use tokio::sync::watch;

/// Creates the exporter, if the settings have a collector.
///
/// # Errors
/// The invalid setting.
pub(crate) fn follower(app: &SharedState) -> Result<Option<TraceExporter>, String> {
    let source = (app.engine.store().clone(), app.engine.clock().clone());
    let holder = (app.storage.holder(), app.storage.is_shared());
    TraceExporter::of(&app.config.traces.url, source, holder, app.spans.clone())
}

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, follower: Option<TraceExporter>, mut stop: watch::Receiver<bool>) {
    let Some(mut follower) = follower else { return };
    loop {
        if !app.free(&mut stop).await || *stop.borrow() {
            return;
        }
        if follower.step(&mut stop).await {
            continue;
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = tokio::time::sleep(EVERY) => {}
        }
    }
}
