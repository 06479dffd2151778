//! The disk space after many overwrites, and the waits for checkpoints.

use crate::{number, report};
use serde_json::json;
use std::{
    fs,
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{Attributes, Commit, Embedded, ExecutionId, Options, Record, Revision, Store, Timestamp, Write};
use tokio::task::JoinSet;

const OVERWRITES: usize = 10;
const WRITERS: usize = 64;
/// The limits of journal plus snapshot and of the rebuilt index, as multiples of the live data; and of the duration of
/// a commit.
const JOURNAL: f64 = 2.5;
const INDEX: f64 = 6.0;
const STALL: Duration = Duration::from_millis(100);
const NOON: u64 = 1_780_000_000_000;

pub async fn run(dir: &Path) -> ExitCode {
    let count = number("RECORDS", 100_000);
    let dir = dir.join("store");
    let open = || Arc::new(Embedded::open(&dir, Options::default()).expect("a store").store);
    let store = open();
    let began = Instant::now();
    let slowest = overwrite(&store, count).await;
    println!("{count} executions written {OVERWRITES} times in {:.1?}", began.elapsed());
    let waits = report::histogram(&slowest);
    let (p99, most) = (report::within(&waits, 99.0), report::within(&waits, 100.0));
    println!(
        "a commit: p50 {:.2?}, p99 {p99:.2?}, at most {most:.2?} (to reach: {STALL:?})",
        report::within(&waits, 50.0)
    );
    store.checkpoint().await.expect("a checkpoint");
    let live = store.health().await.live_bytes;
    store.close().await.expect("it closes");
    drop(store);
    let (journal, grown) = sizes(&dir);
    fs::remove_dir_all(dir.join("index")).expect("the index is thrown away");
    let store = open();
    store.close().await.expect("it closes");
    drop(store);
    let (_, anew) = sizes(&dir);
    let of_live = |bytes: u64| bytes as f64 / live as f64;
    println!(
        "{} MiB live; journal and snapshot {:.2} of it (to reach: {JOURNAL}); index {:.2} after growth, {:.2} rebuilt (to reach: {INDEX})",
        live >> 20,
        of_live(journal),
        of_live(grown),
        of_live(anew)
    );
    report::kept(&json!({
        "row": "space", "live": live, "journal": journal, "index": grown, "index_anew": anew,
        "commit_p99_us": p99.as_micros(), "commit_most_us": most.as_micros(),
    }));
    let reached = of_live(journal) <= JOURNAL && of_live(anew) <= INDEX && most <= STALL;
    if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns the bytes of the index, and of everything else.
fn sizes(dir: &Path) -> (u64, u64) {
    fn of(path: &Path) -> u64 {
        let Ok(entries) = fs::read_dir(path) else { return fs::metadata(path).map_or(0, |file| file.len()) };
        entries.map(|entry| of(&entry.expect("an entry").path())).sum()
    }
    let index = of(&dir.join("index"));
    (of(dir) - index, index)
}

/// Writes each record repeatedly, and returns the duration of each commit.
async fn overwrite(store: &Arc<Embedded>, count: usize) -> Vec<Duration> {
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let store = store.clone();
        writers.spawn(async move {
            let mut times = Vec::new();
            let mine: Vec<_> = (writer..count).step_by(WRITERS).collect();
            let mut revisions = vec![None; mine.len()];
            for time in 0..OVERWRITES {
                for (n, revision) in mine.iter().zip(&mut revisions) {
                    let commit = Commit {
                        record: Some(Write { record: record(*n, time), expected: *revision }),
                        ..Commit::default()
                    };
                    let began = Instant::now();
                    *revision = store.commit(commit).await.expect("it is written").revision;
                    times.push(began.elapsed());
                }
            }
            times
        });
    }
    writers.join_all().await.concat()
}

fn id(n: usize) -> ExecutionId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&(n as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes());
    ExecutionId::new(Timestamp(NOON + n as u64), random)
}

/// Returns about a kilobyte that changes each time, like an execution.
fn record(n: usize, time: usize) -> Record {
    Record {
        id: id(n),
        revision: Revision(0),
        workflow: "onboarding".into(),
        schema: 1,
        tenant: format!("tenant-{:03}", n % 500),
        subject: format!("tenant/t-{n:06}"),
        guard: None,
        state: format!("State{time}"),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: format!("user-{:03}", n % 300),
        created_at: Timestamp(NOON + n as u64),
        updated_at: Timestamp(NOON + (time * 1_000_000 + n) as u64),
        attributes: Attributes::new(),
        body: (0..600).map(|at| (at * (n + 7 * time + 1) % 251) as u8).collect(),
    }
}
