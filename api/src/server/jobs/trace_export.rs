//! Sends traces of executions to the collector, a little after what they tell of has happened.

use crate::{
    state::SharedState,
    telemetry::traces::{EVERY, TraceExporter},
};
use tokio::sync::watch;

/// A follower of the journal, if the settings name a collector.
///
/// # Errors
/// The setting at fault.
pub(crate) fn follower(app: &SharedState) -> Result<Option<TraceExporter>, String> {
    let source = (app.engine.store().clone(), app.engine.clock().clone());
    let holder = (app.storage.holder(), app.storage.is_shared());
    TraceExporter::of(&app.config.traces.url, source, holder, app.spans.clone())
}

/// Works until `stop` says so.
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
