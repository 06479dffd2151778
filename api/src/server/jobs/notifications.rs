//! Loops of notifications: one creates deliveries and removes old ones, and one per channel sends them. A slow receiver delays only its own channel.

use crate::state::SharedState;
use std::time::Duration;
use store::Error;
use tokio::{sync::watch, task::JoinSet};

/// The interval of checks.
const EVERY: Duration = Duration::from_secs(2);
/// The interval without channels, to remove old deliveries.
const IDLE: Duration = Duration::from_secs(60);
/// The interval of removals.
const FORGET_EVERY: Duration = Duration::from_secs(3_600);
/// The maximum delay after a failed round.
const MOST_PAUSE: Duration = Duration::from_secs(30);

/// Runs until `stop`.
pub(crate) async fn run(app: SharedState, stop: watch::Receiver<bool>) {
    let mut tasks = JoinSet::new();
    for channel in app.outbox.channels().keys() {
        tasks.spawn(send(app.clone(), channel.clone(), stop.clone()));
    }
    tasks.spawn(fan_out(app, stop));
    while let Some(ended) = tasks.join_next().await {
        if let Err(error) = ended {
            tracing::error!(%error, "a notification loop has ended; the others continue");
        }
    }
}

/// Creates deliveries for new events, and removes old ones.
async fn fan_out(app: SharedState, mut stop: watch::Receiver<bool>) {
    let every = if app.outbox.channels().is_empty() { IDLE } else { EVERY };
    let (mut pause, mut forgotten) = (every, None);
    while app.free(&mut stop).await && !*stop.borrow() {
        match app.outbox.share().await {
            Ok(kept) => {
                app.requests.notifications(app.outbox.waits("", kept));
                pause = every;
            }
            Err(error) => pause = backoff(pause, every, &error),
        }
        let now = app.engine.clock().now();
        if forgotten.is_none_or(|last: store::Timestamp| !last.is_recent(FORGET_EVERY, now)) {
            match app.outbox.forget().await {
                Ok(()) => forgotten = Some(now),
                Err(error) => tracing::warn!(%error, "cannot remove old deliveries"),
            }
        }
        if !wait(&app, &mut stop, pause).await {
            return;
        }
    }
}

/// Sends due deliveries of one channel.
async fn send(app: SharedState, name: String, mut stop: watch::Receiver<bool>) {
    let Some(channel) = app.outbox.channels().get(&name) else { return };
    let mut pause = EVERY;
    while app.free(&mut stop).await && !*stop.borrow() {
        match app.outbox.send_due(channel, &stop).await {
            Ok(round) => {
                app.requests.notifications(app.outbox.waits(&name, round.waiting));
                (0..round.failed).for_each(|_| app.requests.notify_failed());
                app.requests.notify_died(round.dead);
                pause = EVERY;
            }
            Err(error) => pause = backoff(pause, EVERY, &error),
        }
        if !wait(&app, &mut stop, pause).await {
            return;
        }
    }
}

fn backoff(pause: Duration, every: Duration, error: &Error) -> Duration {
    tracing::warn!(%error, "cannot send notifications; trying again");
    (pause * 2).min(MOST_PAUSE.max(every))
}

/// Waits for `pause`. Returns false if the server stops first.
async fn wait(app: &SharedState, stop: &mut watch::Receiver<bool>, pause: Duration) -> bool {
    let clock = app.engine.clock();
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => false,
        () = clock.sleep_until(clock.now().after(pause)) => true,
    }
}
