//! Forgets finished executions once they are kept no longer; what is kept of them is told in `docs/audit.md`.

use crate::state::{ServerState, SharedState, retention::batch};
use engine::Error;
use std::time::Duration;
use tokio::sync::watch;

/// How often it is looked whether something is due.
const EVERY: Duration = Duration::from_secs(3_600);

/// Works until `stop` says so.
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
                Ok(went) => tracing::info!(went, "finished executions were forgotten"),
                Err(error) => {
                    tracing::warn!(%error, "what is kept no longer could not be forgotten; the next hour will");
                }
            },
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = clock.sleep_until(clock.now().after(EVERY)) => {}
        }
    }
}

/// Forgets all that is due, batch by batch, and says how many went.
async fn sweep(app: &ServerState) -> Result<usize, Error> {
    if app.engine.clock_jump().is_some() {
        tracing::warn!("the clock jumped forward: nothing is forgotten until an operator confirms it");
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
