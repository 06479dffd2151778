//! Replays missed changes from the history, page by page.

use crate::state::{
    ServerState,
    change_feed::{
        Topic,
        change::{Change, EntryGroup, Forgotten, group_entries},
        position::Position,
        quota::WatcherIdentity,
        reader::{PAGE, read_changes},
    },
};
use engine::Error;
use std::time::Duration;
use store::{ExecutionId, Sequence};

/// With more missed entries than this, the present list is sent instead.
const TOO_FAR: usize = 10_000;
/// The maximum difference between the clocks of servers.
const SKEW: Duration = Duration::from_secs(60);

/// A part of the missed changes.
pub(super) enum ReplayStep {
    /// These changes; more follow after this position.
    Some(Vec<Change>, Position),
    /// The last changes.
    All(Vec<Change>, Position),
    /// The changes cannot be replayed.
    Lost(&'static str),
}

/// A replay of missed changes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    /// The client's last position; `None` for a new client.
    since: Option<Position>,
    /// The position replayed so far.
    at: Option<Position>,
    looked_at: usize,
}

impl Replay {
    pub(super) fn from(since: Option<Position>) -> Self {
        Self { since, at: since, looked_at: 0 }
    }

    /// Returns the next part.
    pub(super) async fn next(
        &mut self,
        app: &ServerState,
        topic: Topic,
        standing: &WatcherIdentity,
    ) -> Result<ReplayStep, Error> {
        match topic {
            Topic::One(id) => self.of_one(app, id).await,
            Topic::All | Topic::Approvals => self.of_all(app, standing).await,
        }
    }

    /// Replays the journal of one execution from its start.
    async fn of_one(&mut self, app: &ServerState, id: ExecutionId) -> Result<ReplayStep, Error> {
        let after = self.at.map(Position::after);
        let page = app.engine.store().journal(id, after, PAGE).await?;
        // A page may end within a commit. Then the commit is sent as two changes, and the first ends at its own position.
        let mut found = group_entries(page.items.into_iter().map(|entry| (u32::MAX, entry)).collect());
        if let Some(((_, place), last)) = page.next.zip(found.last_mut()) {
            last.position.place = place;
        }
        let now = app.engine.clock().now();
        let nowhere = self.at.unwrap_or_else(|| Position::whole(Sequence(0), now));
        let reached = found.last().map_or(nowhere, |last| last.position);
        self.at = Some(reached);
        let told = read_changes(app, &app.feed.asking, &app.feed.is_wanted(), &found).await?;
        Ok(if page.next.is_some() { ReplayStep::Some(told, reached) } else { ReplayStep::All(told, reached) })
    }

    async fn of_all(&mut self, app: &ServerState, standing: &WatcherIdentity) -> Result<ReplayStep, Error> {
        let (Some(at), Some(since)) = (self.at, self.since) else { return Ok(ReplayStep::Lost("new")) };
        if at.sequence > app.feed.reached(at.at).sequence {
            let head = app.engine.store().health().await;
            if head.writable && at.sequence > head.sequence {
                return Ok(ReplayStep::Lost("unknown"));
            }
        }
        let mut limit = PAGE;
        let (mut found, more) = loop {
            let page = app.engine.store().history(Some(at.after()), limit).await?;
            let more = page.next.is_some();
            let found = group_entries(page.items);
            if !more || found.len() > 1 {
                break (found, more);
            }
            limit = limit.saturating_mul(4);
        };
        if more {
            // The last commit may continue on the next page.
            found.pop();
        }
        self.looked_at =
            found.iter().fold(self.looked_at, |sum, group| sum.saturating_add(group.entries.len()));
        if self.looked_at > TOO_FAR {
            return Ok(ReplayStep::Lost("behind"));
        }
        // Other changes of a removed execution are removed too.
        let hidden =
            |gone: Forgotten| standing.caller.sees(&gone.tenant) && gone.ended_at.after(SKEW) >= since.at;
        if found.iter().filter_map(EntryGroup::forgotten).any(hidden) {
            return Ok(ReplayStep::Lost("forgotten"));
        }
        let reached = found.last().map_or(at, |last| last.position);
        self.at = Some(reached);
        let told = read_changes(app, &app.feed.asking, &app.feed.is_wanted(), &found).await?;
        Ok(if more { ReplayStep::Some(told, reached) } else { ReplayStep::All(told, reached) })
    }
}
