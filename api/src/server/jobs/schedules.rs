//! Keeps the schedules that people have set: looks at each when it is due, and says when to look again.

use crate::{http::resources::schedules::startable::ScheduleStarter, state::SharedState};
use engine::{Error, SECOND};
use std::time::Duration;
use store::Timestamp;
use tokio::sync::watch;

/// Schedules read in one go.
const PAGE: usize = 500;
/// Whatever the schedules say, they are looked at again after this long: another program may have changed the store.
const AT_LEAST: Duration = Duration::from_secs(30);
/// However often a schedule recurs, the store is not asked more often than this.
const AT_MOST: Duration = Duration::from_millis(100);

/// Works until `stop` says so.
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
                tracing::warn!(%error, "the schedules could not be looked at; trying again");
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

/// Looks at each once, and says when the first is due again. One that cannot be kept does not keep the others waiting.
async fn run_due(app: &SharedState) -> Result<Option<Timestamp>, Error> {
    let (mut first, mut after) = (None::<Timestamp>, None);
    let starter = ScheduleStarter(app.clone());
    loop {
        let page = app.engine.schedules(after.as_deref(), PAGE).await?;
        for schedule in page.items {
            match app.engine.run_schedule(&schedule.name, &starter).await {
                Ok(kept) => first = [first, kept.next].into_iter().flatten().min(),
                Err(error) => {
                    tracing::warn!(schedule = schedule.name, %error, "a schedule could not be kept; trying again");
                }
            }
        }
        after = page.next;
        if after.is_none() {
            return Ok(first);
        }
    }
}
