//! Traces follow the journal: events of executions are exported to a collector shortly after they were committed.
//!
//! The store has the export position. So no span is lost while the collector is away or after a crash, and only one of several servers exports.

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

/// The interval of reads of the journal.
pub(crate) const EVERY: Duration = Duration::from_secs(1);
/// The maximum delay before a retry.
const MOST_PAUSE: Duration = Duration::from_secs(60);
/// The validity of the exclusive claim to export; it is renewed.
const CLAIM: Duration = Duration::from_secs(120);
/// The number of entries read at once.
const PAGE: usize = 256;
/// The maximum number of executions in memory; others are read again.
const MOST_KNOWN: usize = 10_000;

/// The export position, and the server that exports.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Cursor {
    /// The last exported entry: commit, and index within it.
    after: Option<(u64, u32)>,
    /// The exporting server.
    holder: String,
    /// The expiry of its claim.
    until: Timestamp,
}

impl Entity for Cursor {
    const COLLECTION: &'static str = "trace-cursors";
    const RETENTION: engine::Retention<Self> = engine::Retention::WithSubject;

    fn id(&self) -> String {
        "journal".into()
    }
}

/// Metrics of spans.
#[derive(Clone, Debug, Default)]
pub(crate) struct SpanMetrics {
    sent: Counter,
    refused: Counter,
    failed: Counter,
    behind: Gauge,
}

impl SpanMetrics {
    /// Registers the metrics.
    pub(crate) fn registered(registry: &mut Registry) -> Self {
        let me = Self::default();
        registry.register("trace_spans_sent", "Spans accepted by the collector", me.sent.clone());
        registry.register(
            "trace_spans_refused",
            "Spans refused by the collector for good",
            me.refused.clone(),
        );
        registry.register("trace_failures", "Failed exports, which are retried", me.failed.clone());
        registry.register(
            "trace_lag_seconds",
            "Age of the oldest entry that is not exported",
            me.behind.clone(),
        );
        me
    }
}

/// Exports the journal. One per server.
pub(crate) struct TraceExporter {
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
    collector: Collector,
    holder: String,
    /// True if other servers may export too.
    is_shared: bool,
    spans: SpanMetrics,
    known: HashMap<ExecutionId, Option<OpenSpans>>,
}

/// The next batch, and the version of the export position.
struct Batch {
    spans: Vec<SpanData>,
    /// The time of its oldest entry.
    oldest: Timestamp,
    cursor: Cursor,
    version: Option<Sequence>,
}

impl TraceExporter {
    /// Creates the exporter, if the settings have a collector.
    ///
    /// # Errors
    /// The invalid setting.
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

    /// Returns the next batch; `None` if everything was exported, or another server exports.
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
            // Export starts with the present.
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
            // Stores the start at once, so that later entries are not skipped.
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

    /// Writes the cursor if it has not changed.
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
                // For an erased or unreadable execution, the rest of the journal is exported.
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

    /// Returns the open spans before `entry`, from the journal.
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

    /// Sends a batch until the collector accepts it or refuses it for good. Returns false if the server stops first.
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
                        "the collector refused these spans for good; they are skipped"
                    );
                    self.spans.refused.inc_by(count);
                    break;
                }
                Sent::Later(why) => {
                    self.spans.failed.inc();
                    if pause == EVERY {
                        tracing::warn!(why, "the collector did not accept spans; trying again");
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

    /// Exports one batch. Returns true if there may be more; errors of the store are logged and retried.
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
                // Another server exported, or the store was away: the spans in memory may be out of date.
                self.known.clear();
                if !matches!(error, Error::Conflict { .. }) {
                    tracing::warn!(%error, "cannot read or write the export position of traces; trying again");
                }
                false
            }
        }
    }
}
