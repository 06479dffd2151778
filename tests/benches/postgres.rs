//! `cargo bench -p tests --bench postgres`: commits a second of a transition's size, by one, two and three processes' stores on one
//! database, alternating with pgbench's single-row commits on the same server. Prints medians and ratios, and the database log of
//! each.

use std::{
    process::Command,
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
use tests::servers::postgres::{Cluster, Disk, installed};

/// Concurrent executions of each process.
const WRITERS: u64 = 128;
const ROUND: Duration = Duration::from_secs(5);
const ROUNDS: usize = 3;

fn id(node: u64, n: u64) -> ExecutionId {
    ExecutionId::new(Timestamp(1 + node * 1_000_000 + n), [7; 10])
}

/// One transition: the record, a line of history, the next task.
fn transition(node: u64, n: u64, revision: u64) -> Commit {
    let execution = id(node, n);
    let body = vec![b'x'; 900];
    let record = Record {
        id: execution,
        revision: Revision(0),
        workflow: "bench".into(),
        schema: 1,
        tenant: format!("t-{}", n % 50),
        subject: format!("bench/{node}-{n}"),
        guard: Some(format!("bench/{node}-{n}")),
        state: format!("S{}", revision % 5),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "bench".into(),
        created_at: Timestamp(1),
        updated_at: Timestamp(revision),
        attributes: store::Attributes::new(),
        body,
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

/// Returns the commits a second with these processes' stores.
async fn transitions(stores: &[Arc<Postgres>], from: &mut u64) -> f64 {
    let done = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let base = *from;
    let working = stores.iter().zip(0..).flat_map(|(store, node)| {
        let done = done.clone();
        (0..WRITERS).map(move |n| {
            let (store, done) = (store.clone(), done.clone());
            tokio::spawn(async move {
                let mut revision = 0;
                while began.elapsed() < ROUND {
                    store.commit(transition(node, base + n, revision)).await.expect("it commits");
                    revision += 1;
                    done.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
    });
    for work in working.collect::<Vec<_>>() {
        work.await.expect("it works");
    }
    *from += WRITERS;
    done.load(Ordering::Relaxed) as f64 / began.elapsed().as_secs_f64()
}

/// Measures commits of one row a second, with the best number of clients.
fn pgbench(cluster: &Cluster, clients: &str) -> f64 {
    let script = std::env::temp_dir().join(format!("tenure-bench-{}.sql", std::process::id()));
    std::fs::write(&script, "INSERT INTO public.single (body) VALUES (repeat('x', 200));\n")
        .expect("a script");
    let seconds = ROUND.as_secs().to_string();
    let port = cluster.port().to_string();
    let output = Command::new("pgbench")
        .args(["-n", "-M", "prepared", "-c", clients, "-j", "2", "-T", &seconds, "-f"])
        .arg(&script)
        .args(["-h", "127.0.0.1", "-p", &port, "-U", "tenure", "postgres"])
        .output()
        .expect("pgbench is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
    tps.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)))
}

fn log_bytes(cluster: &Cluster) -> f64 {
    let said = cluster.sql("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").expect("the server answers");
    said.parse().expect("a number")
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

#[tokio::main]
async fn main() {
    let Some(bin) = installed() else { return };
    let cluster = Cluster::start(bin, Disk::Synced).expect("a server");
    cluster.sql("CREATE TABLE public.single (id bigserial PRIMARY KEY, body text)").expect("a table");
    let mut stores = Vec::new();
    for node in 0..3 {
        let options = PostgresOptions { name: format!("n{node}"), ..PostgresOptions::for_url(cluster.url()) };
        stores.push(Arc::new(Postgres::open(options).await.expect("a store")));
    }
    let mut from = 0;
    let mut found: Vec<Vec<f64>> = vec![Vec::new(); 4];
    let mut log = [0.0; 4];
    for _ in 0..ROUNDS {
        for clients in ["16", "32"] {
            let before = log_bytes(&cluster);
            let tps = pgbench(&cluster, clients);
            println!("pgbench, one row a commit, {clients} clients: {tps:.0}/s");
            log[0] = (log_bytes(&cluster) - before) / (tps * ROUND.as_secs_f64());
            found[0].push(tps);
        }
        for nodes in 1..=3 {
            let before = log_bytes(&cluster);
            let rate = transitions(&stores[..nodes], &mut from).await;
            log[nodes] = (log_bytes(&cluster) - before) / (rate * ROUND.as_secs_f64());
            println!("transitions, {nodes} process(es): {rate:.0}/s, {:.0} bytes of log each", log[nodes]);
            found[nodes].push(rate);
        }
    }
    let best = found[0].iter().copied().fold(0.0, f64::max);
    println!("\npgbench at its best {best:.0}/s, {:.0} bytes of log a commit", log[0]);
    for nodes in 1..=3 {
        let rate = median(found[nodes].clone());
        println!(
            "{nodes} process(es): median {rate:.0} transitions/s, {:.2} of pgbench, {:.0} bytes of log each",
            rate / best,
            log[nodes]
        );
    }
    for store in stores {
        store.close().await.expect("it closes");
    }
}
