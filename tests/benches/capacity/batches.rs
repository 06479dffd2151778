//! The costs of a batch of commits, by its size: round trips, processor time at both ends, log, time.

use crate::{cpu, say};
use std::{
    io::Write as _,
    os::unix::fs::FileExt as _,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use store::{
    Commit, Entry, ExecutionId, Record, Revision, Sequence, Store, Task, TaskId, Timestamp, Write,
    postgres::{Postgres, PostgresOptions},
};
use tests::{proxies::counting::Wire, servers::postgres::Cluster};

const ROUND: Duration = Duration::from_secs(3);
/// The fastest of this number of rounds counts: other work on the machine only makes rounds slower.
const ROUNDS: usize = 3;
/// Parallel executions: a batch contains about as many commits.
const WRITERS: [u64; 4] = [1, 8, 64, 512];
/// The round trip of a network.
const AWAY: Duration = Duration::from_millis(1);

/// One transition: the record, a line of history, the completed task and the next one.
pub(crate) fn transition(n: u64, revision: u64) -> Commit {
    let execution = ExecutionId::new(Timestamp(1 + n), [7; 10]);
    let record = Record {
        id: execution,
        revision: Revision(0),
        workflow: "bench".into(),
        schema: 1,
        tenant: format!("t-{}", n % 50),
        subject: format!("bench/{n}"),
        guard: Some(format!("bench/{n}")),
        state: format!("S{}", revision % 5),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "bench".into(),
        created_at: Timestamp(1),
        updated_at: Timestamp(revision),
        attributes: store::Attributes::new(),
        body: vec![b'x'; 900],
    };
    let entry = Entry {
        sequence: Sequence(0),
        execution,
        at: Timestamp(revision),
        actor: "engine".into(),
        event: "settled".into(),
        from: "A".into(),
        to: "B".into(),
        detail: vec![b'y'; 200],
    };
    let task = |visit: u64| TaskId { execution, visit: u32::try_from(visit).unwrap_or(0), slot: 0 };
    Commit {
        record: Some(Write { record, expected: (revision > 0).then_some(Revision(revision)) }),
        journal: vec![entry],
        retire: vec![task(revision)],
        schedule: vec![Task { id: task(revision + 1), due: Timestamp(u64::MAX / 4), body: Vec::new() }],
        ..Commit::default()
    }
}

/// The result of a round.
struct Round {
    commits: f64,
    batches: f64,
    took: f64,
    server: f64,
    client: f64,
    log: f64,
}

impl Round {
    fn a_batch(&self) -> f64 {
        self.commits / self.batches
    }

    fn rate(&self) -> f64 {
        self.commits / self.took
    }
}

pub(crate) async fn open(name: &str, url: String) -> Arc<Postgres> {
    let options = PostgresOptions { name: name.into(), connections: 4, ..PostgresOptions::for_url(url) };
    Arc::new(Postgres::open(options).await.expect("a store"))
}

/// Runs `writers` executions on every store for a while.
async fn round(cluster: &Cluster, stores: &[Arc<Postgres>], writers: u64, from: &mut u64) -> Round {
    let counted = async || {
        let mut counts = (0, 0);
        for store in stores {
            let health = store.health().await;
            counts = (counts.0 + health.commits, counts.1 + health.syncs);
        }
        counts
    };
    // The first commits are more work than later ones, and are not counted.
    for (count, store) in stores.iter().enumerate() {
        let firsts = (0..writers).map(|n| (store.clone(), *from + count as u64 * writers + n));
        let firsts =
            firsts.map(|(store, n)| tokio::spawn(async move { store.commit(transition(n, 0)).await }));
        for first in firsts.collect::<Vec<_>>() {
            first.await.expect("it works").expect("it commits");
        }
    }
    let (before, used, own, log) = (counted().await, cpu::server(cluster), cpu::own(), log(cluster));
    let began = Instant::now();
    let done = Arc::new(AtomicU64::new(0));
    let mut working = Vec::new();
    for (count, store) in stores.iter().enumerate() {
        for n in 0..writers {
            let (store, done, n) = (store.clone(), done.clone(), *from + count as u64 * writers + n);
            working.push(tokio::spawn(async move {
                let mut revision = 1;
                while began.elapsed() < ROUND {
                    store.commit(transition(n, revision)).await.expect("it commits");
                    revision += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }));
        }
    }
    for work in working {
        work.await.expect("it works");
    }
    *from += stores.len() as u64 * writers;
    let took = began.elapsed().as_secs_f64();
    let after = counted().await;
    Round {
        commits: (after.0 - before.0) as f64,
        batches: (after.1 - before.1) as f64,
        took,
        server: cpu::server(cluster) - used,
        client: cpu::own() - own,
        log: self::log(cluster) - log,
    }
}

fn log(cluster: &Cluster) -> f64 {
    let said = cluster.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").expect("the server answers");
    said.parse().expect("a number")
}

/// Fits a line to the points; returns its start and its slope.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    // Small values weigh more, so that short batches count as much as long ones.
    let weight = |point: &(f64, f64)| 1.0 / (point.1 * point.1);
    let sum =
        |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(|point| weight(point) * of(point)).sum::<f64>();
    let (all, x, y) = (sum(&|_| 1.0), sum(&|point| point.0), sum(&|point| point.1));
    let (xx, xy) = (sum(&|point| point.0 * point.0), sum(&|point| point.0 * point.1));
    let rise = (all * xy - x * y) / (all * xx - x * x);
    ((y - rise * x) / all, rise)
}

pub(crate) async fn measure(cluster: &Cluster) {
    let mut from = 0;
    println!("\n== a batch of commits, one process, the server on the same machine");
    let near =
        open("near", format!("postgres://tenure@127.0.0.1:{}/postgres?sslmode=disable", cluster.port()))
            .await;
    let stores = [near.clone()];
    let _warm = round(cluster, &stores, 64, &mut from).await;
    let mut rounds: Vec<Option<Round>> = WRITERS.iter().map(|_| None).collect();
    for _ in 0..ROUNDS {
        for (best, writers) in rounds.iter_mut().zip(WRITERS) {
            let round = round(cluster, &stores, writers, &mut from).await;
            if best.as_ref().is_none_or(|best| best.rate() < round.rate()) {
                *best = Some(round);
            }
        }
    }
    let rounds: Vec<Round> = rounds.into_iter().flatten().collect();
    for (round, writers) in rounds.iter().zip(WRITERS) {
        println!(
            "{writers:>4} writers: {:>6.0} transitions/s, {:>5.0} batches/s of {:>5.1}; {:>6.0} us a batch; server {:>6.0} us, client {:>6.0} us of processor a batch; {:>5.0} bytes of log a transition",
            round.rate(),
            round.batches / round.took,
            round.a_batch(),
            1e6 * round.took / round.batches,
            1e6 * round.server / round.batches,
            1e6 * round.client / round.batches,
            round.log / round.commits,
        );
    }
    let points = |of: &dyn Fn(&Round) -> f64| -> Vec<(f64, f64)> {
        rounds.iter().map(|round| (round.a_batch(), 1e6 * of(round) / round.batches)).collect()
    };
    let (batch, row) = line(&points(&|round| round.server));
    say("s_batch", batch, "us", "processor time of the server, each batch");
    say("s_commit", row, "us", "processor time of the server, each commit in it");
    let (batch, row) = line(&points(&|round| round.client));
    say("c_batch", batch, "us", "processor time of the process, each batch");
    say("c_commit", row, "us", "processor time of the process, each commit in it");
    let (batch, row) = line(&points(&|round| round.took));
    say("h_batch", batch, "us", "duration of a batch on an otherwise idle machine");
    say("h_commit", row, "us", "and each commit in it");
    let most = rounds.last().expect("a round");
    say("w_commit", most.log / most.commits, "bytes", "log, each commit, 512 writers");
    say("y", sync(), "us", "a page written and synced, median");
    told(cluster, &stores, &mut from).await;
    beside(cluster, &near, &mut from).await;
    away(cluster, &mut from).await;
}

/// Measures a sync: writes and syncs a page repeatedly, in the folder of the server's files.
fn sync() -> f64 {
    let mut file = tempfile::tempfile().expect("a file");
    let page = vec![1; 8_192];
    file.write_all(&vec![0; 64 * 8_192]).and_then(|()| file.sync_all()).expect("it is written");
    let mut took: Vec<f64> = (0..2_000)
        .map(|n| {
            let began = Instant::now();
            file.write_all_at(&page, n % 64 * 8_192).and_then(|()| file.sync_data()).expect("it is synced");
            began.elapsed().as_secs_f64()
        })
        .collect();
    took.sort_by(f64::total_cmp);
    1e6 * took[took.len() / 2]
}

/// Measures two and three processes at once.
async fn beside(cluster: &Cluster, near: &Arc<Postgres>, from: &mut u64) {
    for count in 2..=3 {
        let mut all = vec![near.clone()];
        for more in 1..count {
            let url = format!("postgres://tenure@127.0.0.1:{}/postgres?sslmode=disable", cluster.port());
            all.push(open(&format!("more-{more}"), url).await);
        }
        let mut best = (0.0, 0.0);
        for _ in 0..ROUNDS {
            let round = round(cluster, &all, 128, from).await;
            best = if best.0 < round.rate() { (round.rate(), round.a_batch()) } else { best };
        }
        println!("{count} processes of 128 writers: {:.0} transitions/s, {:.1} a batch", best.0, best.1);
        for store in &all[1..] {
            store.close().await.expect("it closes");
        }
    }
}

/// Measures the server's cost of notifying each listener: the use of their connections while another one commits.
async fn told(cluster: &Cluster, stores: &[Arc<Postgres>], from: &mut u64) {
    const LISTENERS: usize = 16;
    let url = format!("postgres://tenure@127.0.0.1:{}/postgres?sslmode=disable", cluster.port());
    let mut all = Vec::new();
    for n in 0..LISTENERS {
        let options = PostgresOptions {
            name: format!("listener-{n}"),
            connections: 3,
            heartbeat: Duration::from_secs(3_600),
            ..PostgresOptions::for_url(&url)
        };
        all.push(Postgres::open(options).await.expect("a store"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let sql = "SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'tenure listener-%'";
    let pids = cluster.sql(sql).expect("the server answers");
    let used = cpu::of(&pids);
    let round = round(cluster, stores, 1, from).await;
    let each = (cpu::of(&pids) - used) / round.batches / LISTENERS as f64;
    say(
        "l_told",
        1e6 * each,
        "us",
        "processor time of a listener's connection, each batch, without the sender's",
    );
    for store in all {
        store.close().await.expect("it closes");
    }
}

/// Measures over a counting wire, first local and then as far as another machine.
async fn away(cluster: &Cluster, from: &mut u64) {
    println!("\n== the same over a wire that counts");
    let wire = Wire::to(cluster.port()).expect("a wire");
    let store = open("counted", wire.url()).await;
    let stores = [store];
    let _warm = round(cluster, &stores, 8, from).await;
    for (writers, slow) in [(1, false), (512, false), (1, true), (512, true)] {
        wire.slow(if slow { AWAY } else { Duration::ZERO });
        let before = wire.traffic();
        let round = round(cluster, &stores, writers, from).await;
        let seen = wire.traffic().since(&before);
        println!(
            "{writers:>4} writers, {} more each round trip: {:>6.0} transitions/s, {:>5.1} a batch, {:>6.0} us a batch, {:.2} round trips a batch, {:.0} bytes to the server a transition",
            if slow { "1 ms" } else { "0 ms" },
            round.commits / round.took,
            round.a_batch(),
            1e6 * round.took / round.batches,
            seen.round_trips as f64 / seen.begun as f64,
            seen.bytes as f64 / round.commits,
        );
        if writers == 512 && !slow {
            for (text, count) in &seen.statements {
                let share = *count as f64 / seen.begun as f64;
                println!("       {share:.2} a batch: {}", text.chars().take(90).collect::<String>());
            }
            say("r", seen.round_trips as f64 / seen.begun as f64, "", "round trips a batch");
        }
    }
}
