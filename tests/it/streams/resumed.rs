//! An interrupted reader resumes after its last event.

use super::{Stream, Told, ask, ends, journal};
use crate::served::{NODES, Served, large, small};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

#[tokio::test]
async fn a_stream_of_an_execution_sends_its_journal_and_ends_with_it() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&small("acme")).await;
    let path = format!("/v1/executions/{id}/events");
    let mut stream = Stream::open(&served, &served.admin, &path, "").await;
    let told = stream.until(|told| told.name == "end").await;
    assert_eq!(stream.next().await, None, "it is closed");

    assert_eq!(told.last().unwrap().data, json!({ "why": "finished" }));
    let changed = &told[..told.len() - 1];
    assert!(changed.iter().all(|told| told.name == "changed"), "{changed:?}");
    let entries: Vec<Value> =
        changed.iter().flat_map(|told| told.data["entries"].as_array().unwrap().clone()).collect();
    assert_eq!(entries, journal(&served, &id).await);
    let stands = &changed.last().unwrap().data["execution"];
    assert_eq!((&stands["reason"], &stands["open"]), (&json!("completed"), &json!(false)));
    let row = served.get("/v1/executions").await.body["items"][0].clone();
    assert_eq!(*stands, row, "as the list shows it");

    assert_eq!(ask(&served, &served.admin, &path, &stream.last).await.status(), 204, "nothing will follow");
    for (cut, before) in changed.iter().enumerate() {
        let mut again = Stream::open(&served, &served.admin, &path, &before.id).await;
        if cut + 1 < changed.len() {
            let rest: Vec<_> = again.until(|told| told.name == "end").await.iter().map(entries_of).collect();
            let wanted: Vec<_> = told[cut + 1..].iter().map(entries_of).collect();
            assert_eq!(rest, wanted, "after {cut}");
        }
        if cut + 2 == changed.len() {
            break;
        }
    }
}

fn entries_of(told: &Told) -> Value {
    told.data["entries"].clone()
}

/// Pseudo-random numbers, the same each time.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Interrupted repeatedly while events arrive, and afterwards once after every event.
#[tokio::test]
async fn a_disconnected_watcher_misses_nothing_and_gets_nothing_twice() {
    let served = Served::with_nodes().await;
    let admin = served.admin.clone();
    let mut whole = Stream::open(&served, &admin, "/v1/watch", "").await;
    let begin = whole.must().await;
    assert_eq!((begin.name.as_str(), &begin.data["items"]), ("present", &json!([])));
    let mut ids = Vec::new();
    for tenant in 0..6 {
        ids.push(served.onboard(&small(&format!("tenant-{tenant}"))).await);
    }

    let (mut draw, mut cuts) = (Draw(7), 0);
    let (mut last, mut heard, mut open) = (begin.id.clone(), Vec::new(), ids.len());
    while open > 0 {
        let mut stream = Stream::open(&served, &admin, "/v1/watch", &last).await;
        for _ in 0..draw.below(5) {
            if open == 0 {
                break;
            }
            let told = stream.must().await;
            assert_eq!(told.name, "changed", "{told:?}");
            open -= usize::from(ends(&told));
            heard.push(told);
        }
        last = stream.last.clone();
        cuts += 1;
    }
    assert!(cuts > 15, "{cuts}");

    let mut all = Vec::new();
    while all.iter().filter(|told| ends(told)).count() < ids.len() {
        all.push(whole.must().await);
    }
    let facts = |told: &[Told]| told.iter().map(Told::fact).collect::<Vec<_>>();
    assert_eq!(facts(&heard), facts(&all), "with and without interruptions");
    let mut told: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for one in &all {
        let entries = one.data["entries"].as_array().unwrap().clone();
        told.entry(one.execution().to_owned()).or_default().extend(entries);
    }
    assert_eq!(told.keys().collect::<BTreeSet<_>>(), ids.iter().collect());
    for id in &ids {
        assert_eq!(told[id], journal(&served, id).await, "the whole journal");
    }
    for cut in 0..all.len() - 1 {
        let mut stream = Stream::open(&served, &admin, "/v1/watch", &all[cut].id).await;
        let next = stream.must().await;
        assert_eq!(next.fact(), all[cut + 1].fact(), "after {cut}");
    }
}

/// Stopped or killed: the id of an event is valid on the next server.
#[tokio::test]
async fn a_watcher_continues_at_its_position_after_a_restart_of_the_server() {
    let first = Served::with_nodes().await;
    let id = first.onboard(&large("acme")).await;
    first.asked(&id).await;
    let mut stream = Stream::open(&first, &first.admin, "/v1/watch", "").await;
    assert_eq!(stream.must().await.data["items"][0]["id"], json!(id));
    let order = json!({ "reason": "tea" });
    let sent = first.json_as(&first.admin, &format!("/v1/executions/{id}:pause"), order.clone()).await;
    assert_eq!(sent.status, 200, "{}", sent.body);
    let paused = stream.must().await;
    assert_eq!(
        (paused.name.as_str(), &paused.data["entries"][0]["event"]),
        ("changed", &json!("pause_requested"))
    );

    let (dir, admin) = first.killed();
    let second = Served::again(dir, admin);
    let sent = second.json_as(&second.admin, &format!("/v1/executions/{id}:resume"), order).await;
    assert_eq!(sent.status, 200, "{}", sent.body);
    let mut again = Stream::open(&second, &second.admin, "/v1/watch", &paused.id).await;
    let next = again.must().await;
    assert_eq!(
        (next.name.as_str(), &next.data["entries"][0]["event"]),
        ("changed", &json!("resume_requested"))
    );
    assert!(again.is_silent(Duration::from_millis(600)).await, "and nothing else");
}

#[tokio::test]
async fn a_stopping_server_ends_its_streams_and_does_not_wait_for_them() {
    let served = Served::start();
    let mut stream = Stream::open(&served, &served.admin, "/v1/watch", "").await;
    assert_eq!(stream.must().await.name, "present");
    let began = std::time::Instant::now();
    let ending = tokio::task::spawn_blocking(move || served.stopped(Signal::TERM));
    let end = stream.must().await;
    assert_eq!((end.name.as_str(), &end.data["why"]), ("end", &json!("stopping")));
    assert_eq!(stream.next().await, None);
    assert_eq!(ending.await.unwrap(), Some(0));
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

/// Events that are no longer stored are reported as lost, and the current state is sent instead.
#[tokio::test]
async fn a_watcher_is_informed_about_entries_that_were_removed_in_between() {
    let variables = [("TENURE_RETENTION_AFTER", "1s"), ("TENURE_AUDIT_CHECKPOINT_EVERY", "1s")];
    let served = Served::start_with(&variables);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let admin = served.admin.clone();
    let mut live = Stream::open(&served, &admin, "/v1/watch", "").await;
    let before = live.must().await.id;
    let id = served.onboard(&small("acme")).await;
    served.ended(&id).await;
    live.until(ends).await;
    let mut gone = false;
    for _ in 0..100 {
        served.post("/v1/retention:run", "application/json", "").await;
        gone = served.get(&format!("/v1/executions/{id}")).await.status == 404;
        if gone {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(gone, "it never expires");

    let told = live.must().await;
    assert_eq!((told.name.as_str(), &told.data["execution"]), ("forgotten", &json!(id)));
    let mut back = Stream::open(&served, &admin, "/v1/watch", &before).await;
    let (reset, present) = (back.must().await, back.must().await);
    assert_eq!((reset.name.as_str(), &reset.data["why"]), ("reset", &json!("forgotten")));
    assert_eq!((present.name.as_str(), &present.data["items"]), ("present", &json!([])));
    let mut strange = Stream::open(&served, &admin, "/v1/watch", "99999999.7").await;
    assert_eq!(strange.must().await.data["why"], "unknown");
    let wrong = ask(&served, &admin, "/v1/watch", "yesterday").await;
    assert_eq!(wrong.status(), 400);
    assert!(wrong.text().await.unwrap().contains("Last-Event-ID"));
}
