//! Traces follow the journal: what happened to executions is sent to a collector, a little after it happened.
//!
//! How far it was sent is kept in the store. So a collector that is away misses nothing, a server that is killed leaves no hole, and
//! of several servers one sends.

mod send;
mod spans;
#[cfg(test)]
mod tests;

use engine::{AuditContext, Clock, Entity};
use opentelemetry_sdk::trace::SpanData;
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};
use send::{Collector, Sent};
use serde::{Deserialize, Serialize};
pub(crate) use spans::parent;
use spans::{OpenSpans, is_first, read};
use std::{
    collections::{HashMap, hash_map::Entry as Slot},
    sync::Arc,
    time::Duration,
};
use store::{Commit, Entry, Error, ExecutionId, Key, Put, Read, Record, Sequence, Store, Timestamp};
use tokio::sync::watch;

/// How often the journal is looked at.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// The longest pause before a collector is tried again.
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// How long nobody else sends, unless it is said again.
const CLAIM: Duration = Duration::from_secs(120);
/// How many entries of the journal are read at once.
const PAGE: usize = 256;
/// How many executions are known at most; beyond that their histories are read again.
const MOST_KNOWN: usize = 10_000;

/// How far the journal has been sent, and by whom.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    /// The last entry that was sent: commit, and place within it.
    after: Option<(u64, u32)>,
    /// Who sends.
    holder: String,
    /// Until when nobody else does.
    until: Timestamp,
}

impl Entity for Cursor {
    const COLLECTION: &'static str = "trace-cursors";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        "journal".into()
    }
}

/// Counts spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanMetrics {
    sent: Counter,
    refused: Counter,
    failed: Counter,
    behind: Gauge,
}

impl SpanMetrics {
    /// Names the metrics in `registry`.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let me = Self::default();
        registry.register("trace_spans_sent", "Spans that the collector took", me.sent.clone());
        registry.register("trace_spans_refused", "Spans that it will never take", me.refused.clone());
        registry.register(
            "trace_failures",
            "Times that it took nothing, and is tried again",
            me.failed.clone(),
        );
        registry.register(
            "trace_lag_seconds",
            "Age of the oldest entry that was not sent",
            me.behind.clone(),
        );
        me
    }
}

/// Sends what the journal tells. There is one a server.
pub(crate) struct TraceExporter {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    collector: Collector,
    holder: String,
    /// Others may send too, and have to be let.
    is_shared: bool,
    spans: SpanMetrics,
    known: HashMap<ExecutionId, Option<OpenSpans>>,
}

/// What is to be sent next, and what stands in the store for it.
struct Batch {
    spans: Vec<SpanData>,
    /// When the oldest of it happened.
    oldest: Timestamp,
    cursor: Cursor,
    version: Option<Sequence>,
}

impl TraceExporter {
    /// A follower, if the settings name a collector.
    ///
    /// # Errors
    /// The setting at fault.
    pub(crate) fn of(
        url: &str,
        (store, clock): (Arc<dyn Store>, Arc<dyn Clock>),
        (holder, is_shared): (String, bool),
        spans: SpanMetrics,
    ) -> Result<Option<Self>, String> {
        if url.is_empty() {
            return Ok(None);
        }
        Ok(Some(Self {
            store,
            clock,
            collector: Collector::at(url, &holder)?,
            holder,
            is_shared,
            spans,
            known: HashMap::new(),
        }))
    }

    /// What is to be sent next; nothing when all is, or another server sends.
    async fn next(&mut self) -> Result<Option<Batch>, Error> {
        let key = Key::new(Cursor::COLLECTION, Cursor::default().id());
        let found = self.store.document(&key).await?;
        let version = found.as_ref().map(|found| found.version);
        let (now, corrupt) = (self.clock.now(), |why: serde_json::Error| Error::Corrupt {
            what: key.to_string(),
            why: why.to_string(),
        });
        let mut cursor = match &found {
            Some(found) => serde_json::from_slice(&found.body).map_err(corrupt)?,
            // The first trace is of what happens from now on.
            None => {
                Cursor { after: Some((self.store.health().await.sequence.0, u32::MAX)), ..Cursor::default() }
            }
        };
        let is_another = cursor.holder != self.holder && cursor.until > now;
        if self.is_shared && is_another {
            self.known.clear();
            return Ok(None);
        }
        let after = cursor.after.map(|(sequence, place)| (Sequence(sequence), place));
        let page = self.store.history(after, PAGE).await?.items;
        let (Some((_, first)), Some((place, last))) = (page.first(), page.last()) else {
            // That it has begun is kept at once: what happens before the next look belongs to it.
            if version.is_none() {
                self.keep(&cursor, version).await?;
            }
            return Ok(None);
        };
        let (oldest, after) = (first.at, Some((last.sequence.0, *place)));
        (cursor.holder, cursor.until) = (self.holder.clone(), now.after(CLAIM));
        let version = Some(self.keep(&cursor, version).await?);
        let spans = self.spans_of(&page).await?;
        Ok(Some(Batch { spans, oldest, cursor: Cursor { after, ..cursor }, version }))
    }

    /// Writes the cursor if it is still as it was read.
    async fn keep(&self, cursor: &Cursor, version: Option<Sequence>) -> Result<Sequence, Error> {
        let key = Key::new(Cursor::COLLECTION, cursor.id());
        let commit = Commit {
            reads: vec![Read { key: key.clone(), version }],
            documents: vec![Put { key, body: serde_json::to_vec(cursor).ok() }],
            ..Commit::default()
        };
        Ok(self.store.commit(commit).await?.sequence)
    }

    async fn spans_of(&mut self, page: &[(u32, Entry)]) -> Result<Vec<SpanData>, Error> {
        if self.known.len() > MOST_KNOWN {
            self.known.clear();
        }
        let mut records: HashMap<ExecutionId, Option<Record>> = HashMap::new();
        let mut over = Vec::new();
        for (_, entry) in page.iter().filter(|(_, entry)| entry.execution != AuditContext::no_execution()) {
            let id = entry.execution;
            if !self.known.contains_key(&id) {
                let standing = self.before(entry).await?;
                self.known.insert(id, standing);
            }
            let record = match records.entry(id) {
                Slot::Occupied(found) => found.into_mut(),
                // Of one that was erased, or cannot be read any more, the rest is told.
                Slot::Vacant(free) => free.insert(self.store.load(id).await.unwrap_or_default()),
            };
            let Some(standing) = self.known.get_mut(&id) else { continue };
            if standing.is_some() || is_first(entry) {
                over.extend(read(standing, entry, record.as_ref()));
            }
            if standing.is_none() {
                self.known.remove(&id);
            }
        }
        Ok(over)
    }

    /// Where an execution stood before `entry`, by its own history.
    async fn before(&self, entry: &Entry) -> Result<Option<OpenSpans>, Error> {
        let mut standing = None;
        let (mut after, mut begun) = (None, false);
        if is_first(entry) {
            return Ok(None);
        }
        loop {
            let page = self.store.journal(entry.execution, after, PAGE).await?;
            for earlier in page.items.iter().filter(|earlier| earlier.sequence < entry.sequence) {
                if standing.is_some() || !begun {
                    read(&mut standing, earlier, None);
                }
                begun = true;
            }
            let is_past = page.items.last().is_none_or(|last| last.sequence >= entry.sequence);
            after = page.next;
            if is_past || after.is_none() {
                return Ok(standing);
            }
        }
    }

    /// Sends a batch until it is taken or refused for good. False when the server stops before that.
    async fn send(&self, batch: &Batch, stop: &mut watch::Receiver<bool>) -> bool {
        let count = u64::try_from(batch.spans.len()).unwrap_or(u64::MAX);
        let mut pause = EVERY;
        if count == 0 {
            return true;
        }
        loop {
            let age = self.clock.now().since(batch.oldest).as_secs();
            self.spans.behind.set(i64::try_from(age).unwrap_or(i64::MAX));
            let sent = tokio::select! {
                _ = stop.wait_for(|stop| *stop) => return false,
                sent = self.collector.send(batch.spans.clone()) => sent,
            };
            match sent {
                Sent::Taken => {
                    self.spans.sent.inc_by(count);
                    break;
                }
                Sent::Refused(why) => {
                    tracing::error!(
                        why,
                        count,
                        "the collector will never take these spans; they are left out"
                    );
                    self.spans.refused.inc_by(count);
                    break;
                }
                Sent::Later(why) => {
                    self.spans.failed.inc();
                    if pause == EVERY {
                        tracing::warn!(why, "the collector of traces took nothing; trying again");
                    }
                    tokio::select! {
                        _ = stop.wait_for(|stop| *stop) => return false,
                        () = tokio::time::sleep(pause) => {}
                    }
                    pause = pause.saturating_mul(2).min(MOST_PAUSE);
                }
            }
        }
        self.spans.behind.set(0);
        true
    }

    /// One look. True when there may be more; an error of the store is told, and tried again.
    pub(crate) async fn step(&mut self, stop: &mut watch::Receiver<bool>) -> bool {
        let kept = match self.next().await {
            Ok(None) => return false,
            Ok(Some(batch)) => {
                if !self.send(&batch, stop).await {
                    return false;
                }
                self.keep(&batch.cursor, batch.version).await
            }
            Err(error) => Err(error),
        };
        match kept {
            Ok(_) => true,
            Err(error) => {
                // Another server sends, or the store was away: what is known may be of what was not kept.
                self.known.clear();
                if !matches!(error, Error::Conflict { .. }) {
                    tracing::warn!(%error, "how far traces were sent could not be read or kept; trying again");
                }
                false
            }
        }
    }
}
