//! What the smallest workflows cost, in counts and not in time: what makes one dearer is told here, on any machine.

#[path = "../benches/load/flow.rs"]
#[expect(dead_code, reason = "the bench asks more of it")]
mod flow;

use engine::{Engine, Options, Person, Request, SystemClock, Verdict};
use flow::{A1, Desk, W5};
use std::sync::Arc;
use store::{Embedded, Health, Store as _};

/// Device syncs of five steps one after the other: one to begin, one a step.
const SYNCS: u64 = 6;
/// What five steps write to the journal while nothing else is written, in bytes: a packed frame a sync.
const JOURNAL: u64 = 3_632;
/// So many at a time do not blur what one costs.
const RUNS: u64 = 20;

struct House {
    engine: Engine<Desk>,
    store: Arc<Embedded>,
    desk: Arc<Desk>,
}

fn house(dir: &std::path::Path) -> House {
    let store = Arc::new(Embedded::open(dir, store::Options::default()).unwrap().store);
    let desk = Arc::new(Desk::default());
    let told = desk.clone();
    let engine = Engine::new(store.clone(), Arc::new(SystemClock), desk.clone())
        .with::<W5>()
        .and_then(Engine::with::<A1>)
        .unwrap()
        .options(Options::default())
        .watched(move |id, edges| told.moved(id, edges));
    House { engine, store, desk }
}

impl House {
    async fn since(&self, before: &Health) -> (u64, u64) {
        let after = self.store.health().await;
        (after.syncs - before.syncs, after.written_bytes - before.written_bytes)
    }
}

#[tokio::test]
async fn five_steps_cost_six_syncs_and_a_decision_two_and_no_more_bytes_than_they_did() {
    let dir = tempfile::tempdir().unwrap();
    let house = house(&dir.path().join("store"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let engine = house.engine.clone();
    let working = tokio::spawn(async move { engine.run(async { drop(stopped.await) }).await });
    let client = Person::new("client", ["writer"]);

    let before = house.store.health().await;
    for _ in 0..RUNS {
        let id = house.engine.start(W5::default(), Request::by(&client)).await.unwrap().id;
        house.desk.end(id).await;
    }
    let (syncs, bytes) = house.since(&before).await;
    assert_eq!(syncs, SYNCS * RUNS);
    let each = bytes / RUNS;
    assert!(each.abs_diff(JOURNAL) * 100 <= JOURNAL * 3, "{each} bytes of the journal, {JOURNAL} so far");

    let id = house.engine.start(A1::default(), Request::by(&client)).await.unwrap().id;
    let asked = loop {
        match house.engine.approval(id).await.unwrap() {
            Some(asked) => break asked,
            None => tokio::task::yield_now().await,
        }
    };
    let before = house.store.health().await;
    let editor = Person::new("editor", ["editor"]);
    house.engine.vote(id, &editor, Verdict::Approve, &asked.digest, "yes").await.unwrap();
    house.desk.end(id).await;
    assert_eq!(house.since(&before).await.0, 2, "the vote, and the step behind it");

    stop.send(()).unwrap();
    working.await.unwrap().unwrap();
    house.store.close().await.unwrap();
}
