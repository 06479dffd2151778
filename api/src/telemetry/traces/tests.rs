use super::*;
use crate::telemetry::traces::spans::trace_of;
use axum::{Router, extract::State, http::StatusCode, routing::post};
use engine::ManualClock;
use opentelemetry::trace::{SpanId, Status};
use serde_json::{Value, json};
use std::sync::Mutex;
use store::Memory;

/// The status codes that a collector returns, first one first; then `200`. Also counts requests.
#[derive(Clone, Default)]
struct Ears {
    answers: Arc<Mutex<Vec<StatusCode>>>,
    asked: Arc<Mutex<u32>>,
}

async fn collector(ears: &Ears) -> String {
    async fn hear(State(ears): State<Ears>) -> StatusCode {
        *ears.asked.lock().unwrap() += 1;
        let mut answers = ears.answers.lock().unwrap();
        if answers.is_empty() { StatusCode::OK } else { answers.remove(0) }
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/v1/traces", listener.local_addr().unwrap());
    let router = Router::new().route("/v1/traces", post(hear)).with_state(ears.clone());
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    url
}

fn follower(store: &Arc<Memory>, url: &str, holder: &str) -> TraceExporter {
    program::install_tls();
    TraceExporter {
        store: store.clone(),
        clock: Arc::new(ManualClock::starting_at(Timestamp(10_000))),
        collector: Collector::at(url, holder).unwrap(),
        holder: holder.into(),
        is_shared: true,
        spans: SpanMetrics::default(),
        known: HashMap::new(),
    }
}

fn id() -> ExecutionId {
    ExecutionId::new(Timestamp(1_000), [7; 10])
}

fn line(at: u64, event: &str, (from, to): (&str, &str), detail: Value) -> Entry {
    Entry {
        sequence: Sequence(0),
        execution: id(),
        at: Timestamp(at),
        actor: "olga".into(),
        event: event.into(),
        from: from.into(),
        to: to.into(),
        detail: serde_json::to_vec(&detail).unwrap(),
    }
}

/// The journal of an execution: a state with a failed and a successful attempt, one with a decision, and an end.
fn history() -> Vec<Entry> {
    let tried = |attempt: u32, began: u64| json!({ "action": "make", "attempt": attempt, "began": began });
    let failed = json!({ "Err": { "class": "transient", "code": "node.away", "message": "secret" } });
    vec![
        line(1_000, "started", ("", "Making"), json!({ "event": "started", "by": "begin", "phase": null })),
        line(
            1_500,
            "settled",
            ("Making", "Making"),
            json!({ "event": { "settled": { "ticket": {}, "result": failed, "tried": tried(1, 1_100) } } }),
        ),
        line(
            2_500,
            "settled",
            ("Making", "Asking"),
            json!({ "event": { "settled": { "ticket": {}, "result": { "Ok": null }, "tried": tried(2, 2_000) } }, "by": "made" }),
        ),
        line(
            9_000,
            "voted",
            ("Asking", "Done"),
            json!({ "event": { "voted": { "vote": { "reason": "secret" } } }, "by": "approved", "phase": "forward -> finished" }),
        ),
    ]
}

async fn write(store: &Memory, entries: impl IntoIterator<Item = Entry>) {
    for entry in entries {
        store.commit(Commit { journal: vec![entry], ..Commit::default() }).await.unwrap();
    }
}

fn named<'a>(spans: &'a [SpanData], name: &str) -> Vec<&'a SpanData> {
    spans.iter().filter(|span| span.name == name).collect()
}

#[test]
fn an_execution_is_one_trace_of_its_states_and_their_attempts() {
    let mut standing = None;
    let mut history = history();
    (1..).zip(&mut history).for_each(|(number, entry)| entry.sequence = Sequence(number));
    let spans: Vec<_> = history.iter().flat_map(|entry| read(&mut standing, entry, None)).collect();
    assert!(standing.is_none(), "it has ended");

    assert!(spans.iter().all(|span| span.span_context.trace_id() == trace_of(id())));
    assert_eq!(
        trace_of(id()).to_string(),
        id().to_string().replace('-', ""),
        "the trace id follows from the execution id"
    );
    let root = named(&spans, "execution")[0];
    assert_eq!(root.parent_span_id, SpanId::INVALID);
    let making = named(&spans, "Making")[0];
    assert_eq!(making.parent_span_id, root.span_context.span_id());
    let took = |span: &SpanData| span.end_time.duration_since(span.start_time).unwrap().as_millis();
    assert_eq!((took(root), took(making), took(named(&spans, "Asking")[0])), (8_000, 1_500, 6_500));
    let attempts = named(&spans, "make");
    assert_eq!(attempts.iter().map(|span| took(span)).collect::<Vec<_>>(), [400, 500]);
    assert!(attempts.iter().all(|span| span.parent_span_id == making.span_context.span_id()));
    assert_eq!((&attempts[0].status, &attempts[1].status), (&Status::error("node.away"), &Status::Unset));
    assert!(!format!("{spans:?}").contains("secret"), "texts of users and targets are not exported");
    let mut ids: Vec<_> = spans.iter().map(|span| span.span_context.span_id().to_string()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), spans.len(), "no two spans are equal");
}

#[tokio::test]
async fn a_new_exporter_sends_the_same_spans_as_its_predecessor() {
    let store = Arc::new(Memory::new());
    let url = collector(&Ears::default()).await;
    let mut one = follower(&store, &url, "one");
    assert!(one.next().await.unwrap().is_none());
    write(&store, history()).await;
    let whole = one.next().await.unwrap().unwrap().spans;
    assert_eq!(whole.len(), 5);

    let page = store.history(None, PAGE).await.unwrap().items;
    let mut parts = Vec::new();
    for entry in &page {
        let mut new = follower(&store, &url, "new");
        parts.extend(new.spans_of(std::slice::from_ref(entry)).await.unwrap());
    }
    assert_eq!(parts, whole);
}

#[tokio::test]
async fn no_span_is_lost_while_the_collector_is_away_and_refused_spans_do_not_block_others() {
    let (store, ears) = (Arc::new(Memory::new()), Ears::default());
    let mut follower = follower(&store, &collector(&ears).await, "one");
    let (_tell, mut stop) = watch::channel(false);
    assert!(!follower.step(&mut stop).await, "nothing has happened yet");
    let mut history = history().into_iter();
    write(&store, history.by_ref().take(2)).await;
    *ears.answers.lock().unwrap() = vec![StatusCode::UNAUTHORIZED, StatusCode::OK];
    assert!(follower.step(&mut stop).await);
    assert_eq!((follower.spans.sent.get(), follower.spans.failed.get()), (1, 1), "it is sent again");
    assert!(!follower.step(&mut stop).await, "and no span is sent twice");

    write(&store, history.by_ref().take(1)).await;
    *ears.answers.lock().unwrap() = vec![StatusCode::BAD_REQUEST];
    assert!(follower.step(&mut stop).await);
    assert_eq!((follower.spans.sent.get(), follower.spans.refused.get()), (1, 2));
    write(&store, history).await;
    assert!(follower.step(&mut stop).await);
    assert_eq!((follower.spans.sent.get(), follower.spans.refused.get()), (3, 2));
    assert_eq!(*ears.asked.lock().unwrap(), 4);
}

#[tokio::test]
async fn one_of_several_servers_exports_until_it_stops() {
    let store = Arc::new(Memory::new());
    let url = collector(&Ears::default()).await;
    let (mut one, mut two) = (follower(&store, &url, "one"), follower(&store, &url, "two"));
    assert!(one.next().await.unwrap().is_none());
    write(&store, history()).await;
    assert!(one.next().await.unwrap().is_some());
    assert!(two.next().await.unwrap().is_none(), "the first exporter sends");
    let later = ManualClock::starting_at(Timestamp(10_000).after(CLAIM + Duration::from_secs(1)));
    two.clock = Arc::new(later);
    let batch = two.next().await.unwrap().unwrap();
    assert_eq!(batch.spans.len(), 5, "spans that the first exporter did not confirm are sent");
    let late = one.keep(&Cursor::default(), Some(Sequence(0))).await;
    assert!(matches!(late, Err(Error::Conflict { .. })));
}
