//! Seals what was done, a little after it was done, and signs it; so long as the server runs.

use crate::state::SharedState;
use std::time::Duration;
use tokio::sync::watch;

/// How often the journal is looked at.
const EVERY: Duration = Duration::from_secs(1);

/// Works until `stop` says so.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    let clock = app.engine.clock().clone();
    let mut told = None;
    loop {
        // A commit that is cut off here was made or was not; the next start goes on from it.
        let ended = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            ended = app.auditor.catch_up() => ended,
        };
        let problem = ended.err().map(|error| error.to_string());
        if problem != told {
            match &problem {
                Some(why) => tracing::error!(why, "the audit cannot be sealed or signed; trying again"),
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
