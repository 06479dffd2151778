//! Runs user-defined schedules when they are due.

use crate::{http::resources::schedules::startable::ScheduleStarter, state::SharedState};
use engine::{Error, SECOND};
use std::time::Duration;
use store::Timestamp;
use tokio::sync::watch;

/// The number of schedules read at once.
const PAGE: usize = 500;
/// The maximum interval between checks: another program may have changed the store.
const AT_LEAST: Duration = Duration::from_secs(30);
/// The minimum interval between checks, for frequent schedules.
const AT_MOST: Duration = Duration::from_millis(100);

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    let clock = app.engine.clock().clone();
    loop {
        if !app.free(&mut stop).await {
            return;
        }
        let now = clock.now();
        let next = match run_due(&app).await {
            Ok(next) => next.unwrap_or(now.after(AT_LEAST)),
            Err(error) => {
                tracing::warn!(%error, "cannot check the schedules; trying again");
                now.after(SECOND)
            }
        };
        let next = next.min(now.after(AT_LEAST)).max(clock.now().after(AT_MOST));
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            () = app.told.notified() => {}
            () = clock.sleep_until(next) => {}
        }
    }
}

/// Runs every due schedule, and returns the next due time. An error of one schedule does not delay the others.
async fn run_due(app: &SharedState) -> Result<Option<Timestamp>, Error> {
    let (mut first, mut after) = (None::<Timestamp>, None);
    let starter = ScheduleStarter(app.clone());
    loop {
        let page = app.engine.schedules(after.as_deref(), PAGE).await?;
        for schedule in page.items {
            match app.engine.run_schedule(&schedule.name, &starter).await {
                Ok(kept) => first = [first, kept.next].into_iter().flatten().min(),
                Err(error) => {
                    tracing::warn!(schedule = schedule.name, %error, "cannot run a schedule; trying again");
                }
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(first);
        }
    }
}
