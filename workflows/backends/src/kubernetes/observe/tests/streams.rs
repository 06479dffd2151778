//! Streams from a server that answers by a script.

use super::names;
use crate::kubernetes::observe::{
    Finding, ObserverContext, SourceEvent, decode,
    stream::{Stream, StreamSettings},
};
use serde_json::{Value, json};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::Timestamp;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    sync::mpsc::{self, Receiver},
};
use workflows::observed::{Batch, Mark, PodObject, Table, Term, Uid, WatchEvent};

const UID: [&str; 3] = [
    "0f8fad5b-d9cb-469f-a165-000000000000",
    "0f8fad5b-d9cb-469f-a165-000000000001",
    "0f8fad5b-d9cb-469f-a165-000000000002",
];

/// One answer: a status and a body. A watch has one event in each line.
type Answer = (u16, String);

/// Starts a server that gives these answers in turn and then closes each connection without one. Returns its client, and the requests that it receives.
async fn server(answers: Vec<Answer>) -> (kube::Client, Arc<Mutex<Vec<String>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let requests: Arc<Mutex<Vec<String>>> = Arc::default();
    let (heard, answers) = (requests.clone(), Arc::new(Mutex::new(VecDeque::from(answers))));
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            let (heard, answers) = (heard.clone(), answers.clone());
            tokio::spawn(async move {
                let mut request = [0_u8; 8192];
                let length = connection.read(&mut request).await.unwrap_or(0);
                let line = String::from_utf8_lossy(&request[..length]);
                let line = line.lines().next().unwrap_or_default().to_owned();
                let answer = match line.as_str() {
                    "" => None,
                    ready if ready.contains("/readyz") => Some((200, "ok".to_owned())),
                    _ => {
                        heard.lock().unwrap().push(line);
                        answers.lock().unwrap().pop_front()
                    }
                };
                if let Some((status, body)) = answer {
                    let head = format!(
                        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
                    );
                    _ = connection.write_all(format!("{head}{body}").as_bytes()).await;
                }
            });
        }
    });
    let _before = rustls::crypto::ring::default_provider().install_default();
    let mut config = kube::Config::new(format!("http://{address}").parse().unwrap());
    config.default_retry = false;
    (kube::Client::try_from(config).unwrap(), requests)
}

fn pod(uid: &str, version: u64) -> Value {
    json!({ "metadata": { "name": "train-0", "uid": uid, "resourceVersion": version.to_string() } })
}

fn page(items: &[Value], version: u64, next: &str) -> Answer {
    let metadata = json!({ "resourceVersion": version.to_string(), "continue": next });
    (200, json!({ "kind": "PodList", "metadata": metadata, "items": items }).to_string())
}

fn watch(events: &[(&str, Value)]) -> Answer {
    let line = |(kind, object): &(&str, Value)| json!({ "type": kind, "object": object }).to_string() + "\n";
    (200, events.iter().map(line).collect())
}

fn bookmark(version: u64) -> (&'static str, Value) {
    let metadata = json!({ "resourceVersion": version.to_string() });
    ("BOOKMARK", json!({ "kind": "Pod", "apiVersion": "v1", "metadata": metadata }))
}

/// Runs a stream on a server with these answers. Returns the first `count` events, and the requests until then.
async fn run(answers: Vec<Answer>, count: usize) -> (Vec<SourceEvent<PodObject>>, Vec<String>) {
    let (client, requests) = server(answers).await;
    let (to, mut from): (_, Receiver<SourceEvent<PodObject>>) = mpsc::channel(1);
    let context = ObserverContext { term: Term(4), now: Arc::new(|| Timestamp(77)) };
    let settings = StreamSettings {
        watch: Duration::from_secs(1),
        answer: Duration::from_secs(6),
        first_pause: Duration::from_millis(5),
        longest_pause: Duration::from_millis(20),
    };
    let running = tokio::spawn(async move {
        Stream::new(&client, names(), (context, to), settings).run("/api/v1/pods", decode::pod).await;
    });
    let mut events = Vec::new();
    while events.len() < count {
        events.push(tokio::time::timeout(Duration::from_secs(20), from.recv()).await.unwrap().unwrap());
    }
    drop(from);
    tokio::time::timeout(Duration::from_secs(20), running).await.unwrap().unwrap();
    let requests = requests.lock().unwrap().clone();
    (events, requests)
}

fn batches(events: &[SourceEvent<PodObject>]) -> Vec<Batch<PodObject>> {
    let batch = |event: &SourceEvent<PodObject>| match event {
        SourceEvent::Batch(batch) => Some(batch.clone()),
        SourceEvent::Finding(_) => None,
    };
    events.iter().filter_map(batch).collect()
}

/// Applies the batches to a table. Returns the UIDs in it.
fn table(events: &[SourceEvent<PodObject>]) -> (Vec<Uid>, u64) {
    let mut table = Table::default();
    for batch in batches(events) {
        table.apply(batch).unwrap();
    }
    (table.iter().map(|pod| pod.uid).collect(), table.counts().vanished)
}

fn uids(which: &[usize]) -> Vec<Uid> {
    which.iter().map(|at| Uid::of(UID[*at])).collect()
}

#[tokio::test]
async fn a_list_of_pages_and_the_events_after_it_are_one_round() {
    let answers = vec![
        page(&[pod(UID[0], 3)], 9, "more"),
        page(&[pod(UID[1], 4)], 9, ""),
        watch(&[("ADDED", pod(UID[2], 10)), ("DELETED", pod(UID[0], 11)), bookmark(15)]),
        watch(&[bookmark(16)]),
    ];
    let (events, requests) = run(answers, 6).await;

    let marks: Vec<Mark> = batches(&events).iter().map(|batch| batch.mark).collect();
    let expected = (0..6).map(|seq| Mark { term: Term(4), round: 1, seq });
    assert_eq!(marks, expected.collect::<Vec<_>>());
    assert_eq!(table(&events).0, uids(&[1, 2]));
    assert!(batches(&events)[4].events.is_empty(), "a bookmark is a batch without events");
    assert!(!requests[0].contains("resourceVersion") && requests[0].contains("limit=500"), "{requests:?}");
    assert!(requests[1].contains("continue=more"), "{requests:?}");
    assert!(requests[2].contains("resourceVersion=9") && requests[2].contains("timeoutSeconds=1"));
    assert!(requests[3].contains("resourceVersion=15"), "{requests:?}");
}

/// C-37.
#[tokio::test]
async fn after_410_in_an_answer_or_an_event_the_kind_is_listed_again_and_lost_deletions_are_found() {
    let gone = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": "too old", "reason": "Expired", "code": 410 });
    for expired in [watch(&[("ERROR", gone.clone())]), (410, gone.to_string())] {
        let answers = vec![
            page(&[pod(UID[0], 3), pod(UID[1], 4)], 9, ""),
            expired,
            page(&[pod(UID[1], 4)], 20, ""),
            watch(&[bookmark(21)]),
        ];
        let (events, _) = run(answers, 3).await;
        assert_eq!(table(&events), (uids(&[1]), 1));
        assert_eq!(batches(&events)[1].mark, Mark { term: Term(4), round: 2, seq: 0 });
    }
}

#[tokio::test]
async fn a_refusal_or_a_broken_list_is_a_finding_and_not_an_empty_list() {
    let denied =
        json!({ "kind": "Status", "status": "Failure", "message": "pods is forbidden", "code": 403 });
    let answers = vec![
        page(&[pod(UID[0], 3)], 9, ""),
        (500, String::new()),
        (410, String::new()),
        page(&[], 10, "more"),
        (500, String::new()),
        page(&[json!({ "metadata": { "name": "x" } })], 11, ""),
    ];
    let (events, _) = run(answers, 4).await;
    assert_eq!(table(&events), (uids(&[0]), 0), "no list was complete");
    let findings = events.iter().filter(|event| matches!(event, SourceEvent::Finding(_))).count();
    assert_eq!(findings, 2, "{events:?}");

    let text = denied.to_string();
    let (events, _) = run(vec![(403, text.clone()), (403, text)], 1).await;
    assert!(
        matches!(&events[0], SourceEvent::Finding(Finding::Denied(why)) if why.contains("forbidden")),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_watch_that_breaks_continues_at_the_version_of_its_last_event() {
    let answers = vec![
        page(&[], 9, ""),
        watch(&[("ADDED", pod(UID[0], 12))]),
        (503, String::new()),
        watch(&[("ADDED", pod(UID[1], 14))]),
    ];
    let (events, requests) = run(answers, 4).await;
    assert_eq!(table(&events).0, uids(&[0, 1]));
    assert!(
        requests[2].contains("resourceVersion=12") && requests[3].contains("resourceVersion=12"),
        "{requests:?}"
    );
    assert!(matches!(events[2], SourceEvent::Finding(Finding::Unanswered(_))));
    let applied = batches(&events).into_iter().flat_map(|batch| batch.events);
    assert_eq!(applied.filter(|event| matches!(event, WatchEvent::Apply(_))).count(), 2);
}

#[tokio::test]
async fn an_event_that_cannot_be_decoded_is_found_by_another_list() {
    let answers = vec![
        page(&[pod(UID[0], 3)], 9, ""),
        watch(&[("MODIFIED", json!({ "metadata": { "name": "x" } }))]),
        page(&[pod(UID[0], 3), pod(UID[1], 12)], 13, ""),
        watch(&[bookmark(14)]),
    ];
    let (events, _) = run(answers, 3).await;
    assert!(matches!(&events[1], SourceEvent::Finding(Finding::Undecoded(_))), "{events:?}");
    assert_eq!(table(&events).0, uids(&[0, 1]));
}
