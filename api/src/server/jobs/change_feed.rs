//! Reads the global order of changes from a position, with the records and approvals that streams watch.

use crate::state::{
    ServerState, SharedState,
    change_feed::{
        change::{ApprovalStates, EntryGroup, group_entries},
        reader::{PAGE, read_changes},
    },
};
use engine::Error;
use std::time::Duration;
use store::Sequence;
use tokio::sync::watch;

/// The interval of checks for commits of other servers.
const EVERY: Duration = Duration::from_millis(250);
/// Commits come in bursts; one read serves all commits within this time.
const PAUSE: Duration = Duration::from_millis(10);
/// The delay after an error of the store.
const AGAIN: Duration = Duration::from_secs(1);
/// The interval of token checks, in addition to a check after every request.
const TOKENS: Duration = Duration::from_secs(5);

/// Runs until `stop`; then every stream ends.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    let reads = async {
        loop {
            if let Err(error) = follow_history(&app).await {
                tracing::warn!(%error, "cannot read the history; trying again");
            }
            tokio::time::sleep(AGAIN).await;
        }
    };
    tokio::select! {
        _ = stop.wait_for(|stop| *stop) => {}
        () = reads => {}
        () = check_tokens(&app) => {}
    }
    app.feed.end();
}

/// Ends the streams of invalid tokens.
async fn check_tokens(app: &ServerState) {
    loop {
        tokio::select! {
            () = app.feed.asked.notified() => {}
            () = tokio::time::sleep(TOKENS) => {}
        }
        let (store, law) = (&**app.engine.store(), app.access.law());
        app.feed.places.check(store, &law, app.engine.clock().now()).await;
    }
}

/// Reads the history while there are streams.
async fn follow_history(app: &ServerState) -> Result<(), Error> {
    let asking = &app.feed.asking;
    loop {
        while !app.feed.is_heard() {
            app.feed.bell.notified().await;
        }
        let mut at = (head(app).await?, u32::MAX);
        app.feed.reads(at.0);
        let mut limit = PAGE;
        loop {
            match read_page(app, asking, at, limit).await {
                Ok(ReadOutcome::All(up_to)) => {
                    at = up_to;
                    limit = PAGE;
                    if app.feed.rests() {
                        break;
                    }
                    tokio::time::sleep(PAUSE).await;
                    // Commits of other servers send no notification here.
                    _ = tokio::time::timeout(EVERY, app.feed.bell.notified()).await;
                }
                Ok(ReadOutcome::Some(up_to)) => (at, limit) = (up_to, PAGE),
                Ok(ReadOutcome::TooLittle) => limit = limit.saturating_mul(4),
                Err(error) => {
                    tracing::warn!(%error, "cannot read the history; trying again");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

/// Returns the position of the last commit.
async fn head(app: &ServerState) -> Result<Sequence, Error> {
    let health = app.engine.store().health().await;
    if health.sequence == Sequence(0) && !health.writable {
        let why = health.problem.unwrap_or_else(|| "no answer".into());
        return Err(store::Error::Unavailable { why }.into());
    }
    Ok(health.sequence)
}

/// The result of a read.
enum ReadOutcome {
    /// It reached the end.
    All((Sequence, u32)),
    /// It reached this position; there is more.
    Some((Sequence, u32)),
    /// One commit has more entries than a read.
    TooLittle,
}

async fn read_page(
    app: &ServerState,
    asking: &ApprovalStates,
    at: (Sequence, u32),
    limit: usize,
) -> Result<ReadOutcome, Error> {
    // Checked before the read: a stream that starts later reads its own initial state.
    let wanted = app.feed.is_wanted();
    let page = app.engine.store().history(Some(at), limit).await?;
    let more = page.next.is_some();
    let mut found = group_entries(page.items);
    if more {
        if found.len() < 2 {
            return Ok(ReadOutcome::TooLittle);
        }
        // The last commit may continue on the next page.
        found.pop();
    }
    let reached = found.last().map_or(at, |last| last.position.after());
    if found.iter().any(EntryGroup::is_of_nobody) {
        app.feed.asked.notify_one();
    }
    let made = read_changes(app, asking, &wanted, &found).await?;
    // A partly read commit is not sent yet, so later streams must still receive it.
    let whole = if more { Sequence(reached.0.0.saturating_sub(1)) } else { reached.0 };
    app.feed.tell(made, whole);
    Ok(if more { ReadOutcome::Some(reached) } else { ReadOutcome::All(reached) })
}
