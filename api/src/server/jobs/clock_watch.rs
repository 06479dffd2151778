//! Watches the clock for jumps forward, and compares it with the clock of a shared database.
//!
//! Servers that share a database go by its clock: leases, limits and moments on record are then of one clock. A server whose own clock
//! differs by more than [`MAX_SKEW`] leases no work, and answers requests that change something with
//! `clock.skewed`, until the clocks agree again.

use crate::state::{ServerState, SharedState};
use engine::MAX_SKEW;
use program::exit::{Exit, Failure};
use std::time::Duration;
use store::Timestamp;
use tokio::sync::watch;

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(10);

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            // Uses the monotonic clock, because the wall clock is under test.
            () = tokio::time::sleep(EVERY) => {}
        }
        if let Ok(Some(skew)) = skew(&app).await {
            let refuses = skew > MAX_SKEW;
            if refuses && !app.engine.refuses_work() {
                tracing::error!(
                    seconds = skew.as_secs(),
                    "the clocks of the server and the database differ: no work is done until they agree"
                );
            }
            app.engine.refuse_work(refuses);
        }
        if let Err(error) = app.engine.watch_clock().await {
            tracing::warn!(%error, "whether the clock jumped could not be kept; trying again");
        }
    }
}

/// Synchronizes the engine's clock with the database's, and returns how far the clock of this machine is from it; nothing where there is
/// no database, or it does not answer.
async fn skew(app: &ServerState) -> Result<Option<Duration>, store::Error> {
    let clock = app.engine.clock();
    // A clock that a test sets is not that of this machine.
    let Some(asked) = clock.monotonic() else { return Ok(None) };
    let before = clock.machine_time();
    let Some(theirs) = app.storage.database_time().await? else { return Ok(None) };
    let after = clock.machine_time();
    clock.synchronize(theirs, asked, clock.monotonic().unwrap_or(asked));
    Ok(Some(apart(theirs, before, after)))
}

/// Returns the distance of `theirs` from the period of the query.
fn apart(theirs: Timestamp, before: Timestamp, after: Timestamp) -> Duration {
    before.since(theirs).max(theirs.since(after))
}

/// Refuses to start on a database whose clock differs.
///
/// # Errors
/// The difference, if it is too large.
pub(crate) async fn check_skew(app: &ServerState) -> Result<(), Failure> {
    match skew(app).await {
        Ok(Some(skew)) if skew > MAX_SKEW => {
            let why = format!(
                "the clock of this machine differs by {} s from that of the database; at most {} s are allowed: synchronise both with NTP",
                skew.as_secs(),
                MAX_SKEW.as_secs()
            );
            Err(Failure::new(Exit::Store, why))
        }
        Ok(_) => Ok(()),
        Err(error) => {
            tracing::warn!(%error, "cannot read the clock of the database; trying again");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_duration_of_the_query_is_not_counted_as_skew() {
        let apart = |theirs| apart(Timestamp(theirs), Timestamp(1_000), Timestamp(9_000));
        assert_eq!(
            (apart(1_000), apart(5_000), apart(9_000)),
            (Duration::ZERO, Duration::ZERO, Duration::ZERO)
        );
        assert_eq!((apart(400), apart(40_000)), (Duration::from_millis(600), Duration::from_secs(31)));
    }
}
