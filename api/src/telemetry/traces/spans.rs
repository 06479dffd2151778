//! Spans of executions, built from their journals: one trace per execution, independent of servers.
//!
//! All ids are derived from the journal, so a repeated export has the same ids.

use engine::{AttemptRecord, Parent};
use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{Event, Link, SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    time::{Duration, SystemTime},
};
use store::{Entry, ExecutionId, Record, Sequence, Timestamp};

/// The maximum number of events of a span; further ones are only counted.
const MOST_EVENTS: usize = 128;

/// The open spans of an execution, at a position of its journal.
#[derive(Clone, Debug)]
pub(super) struct OpenSpans {
    began: Timestamp,
    parent: Option<ExecutionId>,
    state: String,
    since: Timestamp,
    /// The entry that entered the state, which gives its span the id.
    entered: Place,
    /// The last entry that was read.
    last: Place,
    events: Vec<Event>,
    dropped: u32,
}

/// The position of an entry: its commit, and its index among the entries of this execution in the commit.
type Place = (Sequence, u32);

/// The fields of a journal entry that a trace contains. Other content, such as texts of users, is not exported.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail {
    event: EntryDetail,
    /// The edge, for a transition.
    by: Option<String>,
    /// The old and new phase.
    phase: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct EntryDetail {
    settled: Option<Settled>,
    started: Option<Begun>,
}

#[derive(Deserialize)]
struct Settled {
    result: Result<serde::de::IgnoredAny, Failed>,
    #[serde(default)]
    tried: Option<AttemptRecord>,
}

#[derive(Deserialize)]
struct Failed {
    code: String,
}

#[derive(Deserialize)]
struct Begun {
    parent: Parent,
}

/// Returns the trace id of an execution.
pub(super) fn trace_of(id: ExecutionId) -> TraceId {
    TraceId::from_bytes(*id.as_bytes())
}

/// Derives the id of a span.
fn span_of(id: ExecutionId, kind: &str, (sequence, place): Place) -> SpanId {
    let digest = Sha256::new()
        .chain_update(id.as_bytes())
        .chain_update(kind)
        .chain_update(sequence.0.to_be_bytes())
        .chain_update(place.to_be_bytes())
        .finalize();
    let mut bytes = [0; 8];
    bytes.iter_mut().zip(digest).for_each(|(to, from)| *to = from);
    SpanId::from_bytes(bytes)
}

/// Returns the root span of an execution.
fn root_of(id: ExecutionId) -> SpanId {
    span_of(id, "execution", (Sequence(0), 0))
}

/// Returns the root span of an execution as a `traceparent` header (W3C Trace Context).
pub(crate) fn parent(id: ExecutionId) -> String {
    format!("00-{}-{}-01", trace_of(id), root_of(id))
}

fn context(id: ExecutionId, span: SpanId, is_remote: bool) -> SpanContext {
    SpanContext::new(trace_of(id), span, TraceFlags::SAMPLED, is_remote, TraceState::default())
}

fn at(moment: Timestamp) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(moment.0)
}

/// Returns the caller's span that requested the execution, from its record.
fn asked_within(record: &Record) -> Option<SpanContext> {
    let text = record.attributes.get("traceparent")?.first()?;
    let mut parts = text.split('-').skip(1);
    let trace = TraceId::from_hex(parts.next()?).ok()?;
    let span = SpanId::from_hex(parts.next()?).ok()?;
    let flags = TraceFlags::new(u8::from_str_radix(parts.next()?, 16).ok()?);
    Some(SpanContext::new(trace, span, flags, true, TraceState::default()))
}

/// Returns true if `entry` is the first of its execution.
pub(super) fn is_first(entry: &Entry) -> bool {
    entry.event == "started"
}

/// Reads `entry`, and returns the spans that it ends. `standing` is updated: `None` before the first entry and after the end.
pub(super) fn read(
    standing: &mut Option<OpenSpans>,
    entry: &Entry,
    record: Option<&Record>,
) -> Vec<SpanData> {
    let detail: Detail = serde_json::from_slice(&entry.detail).unwrap_or_default();
    let here = match standing {
        Some(OpenSpans { last: (sequence, place), .. }) if *sequence == entry.sequence => {
            (*sequence, place.saturating_add(1))
        }
        Some(_) | None => (entry.sequence, 0),
    };
    let is_new = standing.is_none();
    let before = standing.get_or_insert_with(|| OpenSpans {
        began: entry.at,
        parent: detail.event.started.as_ref().map(|begun| begun.parent.execution),
        state: entry.to.clone(),
        since: entry.at,
        entered: here,
        last: here,
        events: Vec::new(),
        dropped: 0,
    });
    before.last = here;
    let mut over = Vec::new();
    match detail.event.settled {
        Some(Settled { result, tried: Some(tried) }) => {
            over.push(attempt(before, entry, here, &tried, result.err().map(|failed| failed.code), record));
        }
        Some(_) | None => before.note(entry),
    }
    let is_left = !is_new && (entry.from != entry.to || detail.by.is_some());
    let is_over = detail.phase.is_some_and(|turned| turned.ends_with("-> finished"));
    if is_left || is_over {
        over.push(before.visit(entry, record));
        before.enter(entry, here);
    }
    if is_over {
        over.push(before.whole(entry, record));
        *standing = None;
    }
    over
}

impl OpenSpans {
    fn note(&mut self, entry: &Entry) {
        if self.events.len() < MOST_EVENTS {
            self.events.push(Event::new(entry.event.clone(), at(entry.at), Vec::new(), 0));
        } else {
            self.dropped = self.dropped.saturating_add(1);
        }
    }

    fn enter(&mut self, entry: &Entry, here: Place) {
        entry.to.clone_into(&mut self.state);
        (self.since, self.entered) = (entry.at, here);
        (self.events, self.dropped) = (Vec::new(), 0);
    }

    /// Returns the span of the state that `entry` leaves.
    fn visit(&mut self, entry: &Entry, record: Option<&Record>) -> SpanData {
        let id = entry.execution;
        let mut events = SpanEvents::default();
        events.events = std::mem::take(&mut self.events);
        events.dropped_count = self.dropped;
        SpanData {
            events,
            ..span(
                (id, span_of(id, "state", self.entered), root_of(id)),
                self.state.clone(),
                (self.since, entry.at),
                [("tenure.state", self.state.clone())],
                record,
            )
        }
    }

    /// Returns the root span of the execution that `entry` ends.
    fn whole(&self, entry: &Entry, record: Option<&Record>) -> SpanData {
        let id = entry.execution;
        let outcome = record.and_then(|record| record.reason.clone()).unwrap_or_default();
        let name = record.map_or_else(|| "execution".to_owned(), |record| record.workflow.clone());
        let mut links = SpanLinks::default();
        links.links.extend(self.parent.map(|parent| {
            Link::new(context(parent, root_of(parent), true), vec![KeyValue::new("tenure.link", "parent")], 0)
        }));
        let asked = record.and_then(asked_within);
        links
            .links
            .extend(asked.map(|asked| Link::new(asked, vec![KeyValue::new("tenure.link", "request")], 0)));
        let went_wrong = matches!(outcome.as_str(), "rolled_back" | "terminated");
        let status = if went_wrong { Status::error(outcome.clone()) } else { Status::Unset };
        SpanData {
            links,
            status,
            ..span(
                (id, root_of(id), SpanId::INVALID),
                name,
                (self.began, entry.at),
                [("tenure.outcome", outcome)],
                record,
            )
        }
    }
}

/// Returns the span of the attempt that `entry` ends.
fn attempt(
    standing: &OpenSpans,
    entry: &Entry,
    here: Place,
    tried: &AttemptRecord,
    failed: Option<String>,
    record: Option<&Record>,
) -> SpanData {
    let id = entry.execution;
    let name = if tried.undo { format!("undo {}", tried.action) } else { tried.action.clone() };
    let status = failed.clone().map_or(Status::Unset, Status::error);
    let mut span = span(
        (id, span_of(id, "attempt", here), span_of(id, "state", standing.entered)),
        name,
        (tried.began, entry.at),
        [("tenure.action", tried.action.clone())],
        record,
    );
    span.attributes.push(KeyValue::new("tenure.attempt", i64::from(tried.attempt)));
    span.attributes.extend(failed.map(|code| KeyValue::new("error.type", code)));
    SpanData { status, span_kind: SpanKind::Client, ..span }
}

/// Creates a span with the common fields.
fn span(
    (execution, own, parent): (ExecutionId, SpanId, SpanId),
    name: String,
    (from, to): (Timestamp, Timestamp),
    about: [(&'static str, String); 1],
    record: Option<&Record>,
) -> SpanData {
    let mut attributes = BTreeMap::from(about);
    attributes.insert("tenure.execution", execution.to_string());
    if let Some(record) = record {
        attributes.insert("tenure.workflow", record.workflow.clone());
        attributes.insert("tenure.subject", record.subject.clone());
        attributes.insert("tenure.tenant", record.tenant.clone());
    }
    SpanData {
        span_context: context(execution, own, false),
        parent_span_id: parent,
        parent_span_is_remote: false,
        span_kind: SpanKind::Internal,
        name: name.into(),
        start_time: at(from),
        end_time: at(to.max(from)),
        attributes: attributes.into_iter().map(|(name, value)| KeyValue::new(name, value)).collect(),
        dropped_attributes_count: 0,
        events: SpanEvents::default(),
        links: SpanLinks::default(),
        status: Status::Unset,
        instrumentation_scope: InstrumentationScope::builder("tenure").build(),
    }
}
