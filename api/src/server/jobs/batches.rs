//! Gives the commands of batches, for as long as the server runs.

use crate::state::SharedState;
use engine::Batches;
use std::time::Duration;
use tokio::sync::watch;

/// How long to wait before trying again when the store does not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// How often to look, though nobody has asked.
const IDLE: Duration = Duration::from_secs(60);

/// Works until `stop` says so; what is under way goes on after the next start.
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
                tracing::warn!(%error, "batches could not be gone on with; trying again");
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
