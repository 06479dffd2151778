//! What somebody missed while they were away, read from the history page by page.

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

/// So many entries behind, it is told how all stands instead.
const TOO_FAR: usize = 10_000;
/// By so much the clocks of servers may differ.
const SKEW: Duration = Duration::from_secs(60);

/// A part of what was missed.
pub(super) enum ReplayStep {
    /// These changes; there are more behind this place.
    Some(Vec<Change>, Position),
    /// These, and nothing more.
    All(Vec<Change>, Position),
    /// It cannot be told.
    Lost(&'static str),
}

/// A walk through what was missed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Replay {
    /// Where whoever was away stopped; `None` if they never heard anything.
    since: Option<Position>,
    /// Told up to here.
    at: Option<Position>,
    looked_at: usize,
}

impl Replay {
    pub(super) fn from(since: Option<Position>) -> Self {
        Self { since, at: since, looked_at: 0 }
    }

    /// The next part.
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

    /// Of one execution: its journal is read, which begins where it began.
    async fn of_one(&mut self, app: &ServerState, id: ExecutionId) -> Result<ReplayStep, Error> {
        let after = self.at.map(Position::after);
        let page = app.engine.store().journal(id, after, PAGE).await?;
        // A page may end within a commit; then that is told as two changes, of which the first ends at its own place.
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
            // The last may go on behind the page.
            found.pop();
        }
        self.looked_at =
            found.iter().fold(self.looked_at, |sum, group| sum.saturating_add(group.entries.len()));
        if self.looked_at > TOO_FAR {
            return Ok(ReplayStep::Lost("behind"));
        }
        // Whatever else happened to what was forgotten since is forgotten too.
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
