//! The costs of the smallest workflows, as counts and not as times: an increase is found on any machine.

#[path = "../benches/load/flow.rs"]
#[expect(dead_code, reason = "the bench asks more of it")]
mod flow;

use engine::{Engine, Options, Person, Request, SystemClock, Verdict};
use flow::{A1, Desk, W5};
use std::{path::Path, process::Command, sync::Arc};
use store::{Embedded, Health, Store as _};

/// Device syncs of five steps one after the other: one for the start, one for each step.
const SYNCS: u64 = 6;
/// The bytes that five steps write to an otherwise idle journal: one packed frame for each sync.
const JOURNAL: u64 = 3_632;
/// Transitions of five steps: one for the start, one for each step.
const TRANSITIONS: u64 = 6;
/// The blocks that a transition in memory allocates, including the share of worker and client.
const ALLOCATIONS: u64 = 197;
/// The instructions of a transition in memory, with tests built by [`COMPILER`].
const INSTRUCTIONS: u64 = 705_100;
/// Another compiler generates other instructions.
const COMPILER: &str = "rustc 1.95.";
/// Runs per measurement: few enough not to distort the cost of one.
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
        .with_workflow::<W5>()
        .and_then(Engine::with_workflow::<A1>)
        .unwrap()
        .with_options(Options::default())
        .with_edge_observer(move |id, edges| told.moved(id, edges));
    House { engine, store, desk }
}

impl House {
    async fn since(&self, before: &Health) -> (u64, u64) {
        let after = self.store.health().await;
        (after.syncs - before.syncs, after.written_bytes - before.written_bytes)
    }
}

#[tokio::test]
async fn five_steps_cost_six_syncs_and_a_decision_two_within_the_recorded_bytes() {
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
    assert!(each.abs_diff(JOURNAL) * 100 <= JOURNAL * 3, "{each} bytes of the journal, expected {JOURNAL}");

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
    assert_eq!(house.since(&before).await.0, 2, "the vote, and the following step");

    stop.send(()).unwrap();
    working.await.unwrap().unwrap();
    house.store.close().await.unwrap();
}

/// Returns the number that `valgrind --tool=TOOL` prints after `says` for five steps, run `times` times.
fn counted(tool: &str, says: &str, times: u64, dir: &Path) -> u64 {
    let ran = Command::new("valgrind")
        .arg(format!("--tool={tool}"))
        .args((tool == "callgrind").then_some("--callgrind-out-file=/dev/null"))
        .args([env!("CARGO_BIN_EXE_five"), &times.to_string()])
        .current_dir(dir)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{told}");
    let number = told.lines().find_map(|line| line.split_once(says)).expect(says).1;
    let digits = number.trim().split(' ').next().unwrap().replace(',', "");
    digits.parse().unwrap_or_else(|_| panic!("{says}{number}"))
}

#[test]
fn a_transition_allocates_and_executes_no_more_than_its_recorded_limits() {
    if Command::new("valgrind").arg("--version").output().is_err() {
        println!("skipped: valgrind is not installed");
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    // The difference of two runs excludes the start of the process.
    let each = |tool, says| {
        let (few, many) = (counted(tool, says, RUNS, dir.path()), counted(tool, says, 11 * RUNS, dir.path()));
        many.saturating_sub(few) / (10 * RUNS * TRANSITIONS)
    };
    let allocations = each("memcheck", "total heap usage: ");
    assert!(allocations * 100 <= ALLOCATIONS * 103, "{allocations} blocks, expected {ALLOCATIONS}");

    let compiler = Command::new("rustc").arg("--version").output().unwrap().stdout;
    if !compiler.starts_with(COMPILER.as_bytes()) {
        println!("skipped in part: instructions were counted with {COMPILER}");
        return;
    }
    let instructions = each("callgrind", "Collected : ");
    assert!(instructions * 100 <= INSTRUCTIONS * 103, "{instructions} instructions, expected {INSTRUCTIONS}");
}
