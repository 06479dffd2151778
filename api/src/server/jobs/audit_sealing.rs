//! Seals journal entries into the audit shortly after they were written, and signs checkpoints.

use crate::state::SharedState;
use std::time::Duration;
use tokio::sync::watch;

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(1);

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    let clock = app.engine.clock().clone();
    let mut told = None;
    loop {
        // A commit that is cut off here is either complete or absent; the next start continues from it.
        let ended = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            ended = app.auditor.catch_up() => ended,
        };
        let problem = ended.err().map(|error| error.to_string());
        if problem != told {
            match &problem {
                Some(why) => tracing::error!(why, "cannot seal or sign the audit; trying again"),
                None => tracing::info!("the audit is sealed and signed again"),
            }
            told = problem;
        }
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = clock.sleep_until(clock.now().after(EVERY)) => {}
        }
    }
}
