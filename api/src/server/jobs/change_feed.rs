//! The reader itself: the history of all from where it stands, in changes, with the records and approvals that somebody watches.

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

/// How often it is looked for what other servers commit.
const EVERY: Duration = Duration::from_millis(250);
/// Commits come in bursts; one look serves them all.
const PAUSE: Duration = Duration::from_millis(10);
/// After a store that did not answer.
const AGAIN: Duration = Duration::from_secs(1);
/// How often tokens are looked at, beside whenever somebody asked for something.
const TOKENS: Duration = Duration::from_secs(5);

/// Works until `stop` says so; then every stream ends.
pub(crate) async fn run(app: SharedState, mut stop: watch::Receiver<bool>) {
    let reads = async {
        loop {
            if let Err(error) = follow_history(&app).await {
                tracing::warn!(%error, "the history could not be followed; trying again");
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

/// Ends the streams of tokens that are no longer good.
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

/// Follows the history whenever somebody listens.
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
                    // Another server's commits ring nothing here.
                    _ = tokio::time::timeout(EVERY, app.feed.bell.notified()).await;
                }
                Ok(ReadOutcome::Some(up_to)) => (at, limit) = (up_to, PAGE),
                Ok(ReadOutcome::TooLittle) => limit = limit.saturating_mul(4),
                Err(error) => {
                    tracing::warn!(%error, "the history could not be read; trying again");
                    tokio::time::sleep(AGAIN).await;
                }
            }
        }
    }
}

/// The last commit there is.
async fn head(app: &ServerState) -> Result<Sequence, Error> {
    let health = app.engine.store().health().await;
    if health.sequence == Sequence(0) && !health.writable {
        let why = health.problem.unwrap_or_else(|| "it does not answer".into());
        return Err(store::Error::Unavailable { why }.into());
    }
    Ok(health.sequence)
}

/// How far a look went.
enum ReadOutcome {
    /// To the end of what there is.
    All((Sequence, u32)),
    /// So far; there is more.
    Some((Sequence, u32)),
    /// One commit wrote more than was read.
    TooLittle,
}

async fn read_page(
    app: &ServerState,
    asking: &ApprovalStates,
    at: (Sequence, u32),
    limit: usize,
) -> Result<ReadOutcome, Error> {
    // Before the history is read: who comes later reads for themselves what is there by then.
    let wanted = app.feed.is_wanted();
    let page = app.engine.store().history(Some(at), limit).await?;
    let more = page.next.is_some();
    let mut found = group_entries(page.items);
    if more {
        if found.len() < 2 {
            return Ok(ReadOutcome::TooLittle);
        }
        // The last may go on behind the page.
        found.pop();
    }
    let reached = found.last().map_or(at, |last| last.position.after());
    if found.iter().any(EntryGroup::is_of_nobody) {
        app.feed.asked.notify_one();
    }
    let made = read_changes(app, asking, &wanted, &found).await?;
    // A commit of which a part was told is not told of yet, as far as whoever comes by then is concerned.
    let whole = if more { Sequence(reached.0.0.saturating_sub(1)) } else { reached.0 };
    app.feed.tell(made, whole);
    Ok(if more { ReadOutcome::Some(reached) } else { ReadOutcome::All(reached) })
}
