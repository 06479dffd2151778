//! Sends the commands of batches while the server runs.

use crate::state::SharedState;
use engine::Batches;
use std::time::Duration;
use tokio::sync::watch;

/// The delay before a retry after an error of the store.
const AGAIN: Duration = Duration::from_secs(1);
/// The maximum interval between checks.
const IDLE: Duration = Duration::from_secs(60);

/// Runs until `stop`; open batches continue after the next start.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    let mut batches = Batches::default();
    let clock = app.engine.clock().clone();
    loop {
        if !app.free(&mut stop).await {
            return;
        }
        let until = match batches.work(&app.engine).await {
            Ok(due) => due.unwrap_or_else(|| clock.now().after(IDLE)),
            Err(error) => {
                tracing::warn!(%error, "cannot continue batches; trying again");
                clock.now().after(AGAIN)
            }
        };
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = app.batched.notified() => {}
            () = clock.sleep_until(until) => {}
        }
    }
}
