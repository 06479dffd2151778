//! Removes finished executions whose retention period is over; `docs/audit.md` lists the data that is kept.

use crate::state::{ServerState, SharedState, retention::batch};
use engine::Error;
use std::time::Duration;
use tokio::sync::watch;

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(3_600);

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    let clock = app.engine.clock().clone();
    loop {
        if !app.free(&mut stop).await {
            return;
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            ended = sweep(&app) => match ended {
                Ok(0) => {}
                Ok(went) => tracing::info!(went, "removed finished executions"),
                Err(error) => {
                    tracing::warn!(%error, "cannot remove finished executions; trying again in an hour");
                }
            },
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = clock.sleep_until(clock.now().after(EVERY)) => {}
        }
    }
}

/// Removes all due executions in batches, and returns their number.
async fn sweep(app: &ServerState) -> Result<usize, Error> {
    if app.engine.clock_jump().is_some() {
        tracing::warn!("the clock jumped forward: nothing is removed until an operator confirms it");
        return Ok(0);
    }
    let (mut went, mut after) = (0_usize, None);
    loop {
        let (found, next) = batch(app, after, true).await?;
        went = went.saturating_add(found.iter().filter(|one| one.kept_reason.is_none()).count());
        after = next;
        if after.is_none() {
            return Ok(went);
        }
    }
}
