//! Watches the clock for jumps forward, and compares it with the clock of a shared database.
//!
//! Servers that share a database go by its clock: leases, limits and moments on record are then of one clock. A server whose own clock
//! differs by more than [`MAX_SKEW`] leases no work, and answers requests that change something with
//! `clock.skewed`, until the clocks agree again.

use crate::state::{ServerState, SharedState};
use engine::{Clock, MAX_SKEW};
use program::exit::{Exit, Failure};
use std::time::Duration;
use store::Timestamp;
use tokio::sync::watch;

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(10);
/// The longest query whose answer is used: the moment of the answer is known to half of that.
const LONGEST_QUERY: Duration = Duration::from_secs(1);
/// The pause between two tries at the start.
const PAUSE: Duration = Duration::from_millis(200);

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
            tracing::warn!(%error, "cannot store the state of the clock; trying again");
        }
    }
}

/// Synchronizes the engine's clock with the database's, unless they differ too much, and returns how far the clock of this machine is from
/// it; nothing where there is no database.
///
/// # Errors
/// Returns the error of the query, and one for an answer that took too long.
async fn skew(app: &ServerState) -> Result<Option<Duration>, store::Error> {
    let clock = app.engine.clock();
    // A clock that a test sets is not that of this machine.
    let Some(asked) = clock.monotonic() else { return Ok(None) };
    let before = clock.machine_time();
    let Some(theirs) = app.storage.database_time().await? else { return Ok(None) };
    let (after, answered) = (clock.machine_time(), clock.monotonic().unwrap_or(asked));
    if answered.saturating_sub(asked) > LONGEST_QUERY {
        return Err(store::Error::Unavailable {
            why: "the database took too long to return its time".into(),
        });
    }
    let skew = apart(theirs, before, after);
    adopt(&**clock, theirs, skew, (asked, answered));
    Ok(Some(skew))
}

/// Synchronizes `clock` with `theirs`, unless it differs by more than [`MAX_SKEW`]: one of the two is wrong, and an operator must say which.
fn adopt(clock: &dyn Clock, theirs: Timestamp, skew: Duration, (asked, answered): (Duration, Duration)) {
    if skew <= MAX_SKEW {
        clock.synchronize(theirs, asked, answered);
    }
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
    let first = async {
        loop {
            match skew(app).await {
                Ok(skew) => return skew,
                Err(error) => tracing::debug!(%error, "cannot read the clock of the database; trying again"),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(app.config.store.patience.0.max(LONGEST_QUERY), first).await {
        Ok(Some(skew)) if skew > MAX_SKEW => {
            let why = format!(
                "the clock of this machine differs by {} s from that of the database; at most {} s are allowed: synchronise both with NTP",
                skew.as_secs(),
                MAX_SKEW.as_secs()
            );
            Err(Failure::new(Exit::Store, why))
        }
        Ok(_) => Ok(()),
        Err(_) => {
            tracing::warn!("cannot read the clock of the database in time; trying again");
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{SharedClock, SystemClock};

    #[test]
    fn a_time_that_differs_too_much_is_not_adopted() {
        let clock = SharedClock::new(SystemClock);
        let monotonic = clock.monotonic().unwrap();
        let read = |ahead: u64| {
            let machine = clock.machine_time();
            let theirs = machine.after(Duration::from_secs(ahead));
            adopt(&clock, theirs, apart(theirs, machine, machine), (monotonic, monotonic));
            clock.now().since(clock.machine_time())
        };
        assert_eq!(read(40 * 60), Duration::ZERO);
        let adopted = read(20);
        assert!(adopted > Duration::from_secs(10), "{adopted:?}");
        let still = read(40 * 60);
        assert!(still > Duration::from_secs(10) && still <= Duration::from_secs(21), "{still:?}");
    }

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
