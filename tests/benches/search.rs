//! `cargo bench -p tests --bench search`: 1,000,000 executions in an embedded store. Prints the time of the first page of a
//! search by each field, the write rate, the disk space, and the time to open the store.
//!
//! `SEARCH_RECORDS=n` sets another number.

use std::{
    collections::BTreeSet,
    path::Path,
    process::ExitCode,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use store::{
    Attributes, Commit, Embedded, Entry, ExecutionId, Options, Query, Record, Revision, Sequence, Store,
    Timestamp, Write,
};

const RECORDS: u64 = 1_000_000;
const WRITERS: u64 = 256;
/// The number of repeats of each search, with different values where there are several.
const TIMES: u64 = 200;
const PAGE: usize = 100;
/// The limit for the 99th percentile.
const WITHIN: Duration = Duration::from_millis(20);

const START: u64 = 1_780_000_000_000;
/// One execution every 2.6 s: a million make a month.
const EVERY_MS: u64 = 2_592;
const TENANTS: u64 = 500;
const WORKFLOWS: &[&str] =
    &["onboarding", "offboarding", "quota_increase", "quota_decrease", "reclaim", "eviction", "sla_change"];
const REASONS: &[&str] = &["outcome_unknown", "compensation_blocked", "past_pivot_failure", "limit_reached"];
const OUTCOMES: &[&str] = &["completed", "completed", "completed", "cancelled", "rejected", "rolled_back"];
const CODES: &[&str] = &["gpu.busy", "gpu.ecc_fault", "cluster.unreachable", "storage.full", "child.failed"];
const ROLES: &[&str] = &["platform_ops", "security", "finance", "tenant_owner"];

fn pick(of: &[&str], n: u64) -> String {
    of[usize::try_from(n % of.len() as u64).expect("an index")].to_owned()
}

/// Returns pseudo-random numbers, the same each time.
fn mixed(n: u64) -> u64 {
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 20
}

fn id(n: u64) -> ExecutionId {
    let mut random = [0; 10];
    random[2..].copy_from_slice(&mixed(n).to_be_bytes());
    ExecutionId::new(Timestamp(START + n * EVERY_MS), random)
}

/// The `n`th execution: nineteen of twenty have finished; some of the open ones wait for approval, and few are parked.
fn record(n: u64) -> Record {
    let draw = mixed(n);
    let (open, parked, asking) =
        (draw.is_multiple_of(20), draw.is_multiple_of(1_000), draw.is_multiple_of(60));
    let (phase, reason, state) = match (open, parked) {
        (_, true) => ("parked", Some(pick(REASONS, draw / 1_000)), "CarvingSlices"),
        (true, false) if asking => ("forward", None, "AwaitingApproval"),
        (true, false) => ("forward", None, "Provisioning"),
        (false, false) => ("finished", Some(pick(OUTCOMES, draw / 20)), "Done"),
    };
    let mut attributes = Attributes::new();
    let mut has = |field: &str, value: String| {
        attributes.insert(field.to_owned(), BTreeSet::from([value]));
    };
    if open {
        has("action", if parked { "CarveSlices".into() } else { "CreateNamespace".into() });
    }
    if parked || draw % 50 == 1 {
        has("error", pick(CODES, draw / 50));
    }
    if asking {
        has("asked", pick(ROLES, draw / 60));
    }
    if draw % 10 == 3 {
        has("parent", id(n / 10).to_string());
    }
    if draw % 10 == 4 {
        has("label", format!("team={}", draw / 10 % 200));
    }
    Record {
        id: id(n),
        revision: Revision(0),
        workflow: pick(WORKFLOWS, draw / 7),
        schema: 1,
        tenant: format!("tenant-{:03}", draw / 11 % TENANTS),
        subject: format!("node/n-{:05}", draw / 13 % 20_000),
        guard: None,
        state: state.into(),
        phase: phase.into(),
        reason,
        open: open || parked,
        requested_by: format!("user-{:03}", draw / 17 % 300),
        created_at: Timestamp(START + n * EVERY_MS),
        updated_at: Timestamp(START + n * EVERY_MS + draw % 3_600_000),
        attributes,
        body: vec![b'x'; 400],
    }
}

fn created(n: u64) -> Commit {
    let record = record(n);
    let entry = Entry {
        sequence: Sequence(0),
        execution: record.id,
        at: record.updated_at,
        actor: "engine".into(),
        event: "started".into(),
        from: record.state.clone(),
        to: record.state.clone(),
        detail: b"{}".to_vec(),
    };
    Commit { record: Some(Write { record, expected: None }), journal: vec![entry], ..Commit::default() }
}

async fn fill(store: &Arc<Embedded>, records: u64) {
    let next = Arc::new(AtomicU64::new(0));
    let writers = (0..WRITERS).map(|_| {
        let (store, next) = (store.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let n = next.fetch_add(1, Ordering::Relaxed);
                if n >= records {
                    return;
                }
                store.commit(created(n)).await.expect("the store takes it");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer ends");
    }
}

/// Returns the `n`th query.
type Asked = Box<dyn Fn(u64) -> Query>;

/// The queries by each field, with another value each time.
fn searches(records: u64) -> Vec<(&'static str, Asked)> {
    let span = records * EVERY_MS;
    let hour = 3_600_000;
    let at = move |n: u64| START + mixed(n) % span;
    let within = move |n: u64| (Timestamp(at(n)), Timestamp(at(n) + hour));
    let is = |field: &'static str, value: Box<dyn Fn(u64) -> String>| -> Asked {
        Box::new(move |n| Query::is(field, value(n)))
    };
    vec![
        ("tenant", is("tenant", Box::new(|n| format!("tenant-{:03}", n * 7 % TENANTS)))),
        ("workflow", is("workflow", Box::new(|n| pick(WORKFLOWS, n)))),
        (
            "state",
            is(
                "state",
                Box::new(|n| pick(&["CarvingSlices", "AwaitingApproval", "Provisioning", "Done"], n)),
            ),
        ),
        ("phase", is("phase", Box::new(|n| pick(&["parked", "forward", "finished"], n)))),
        ("reason", is("reason", Box::new(|n| pick(REASONS, n)))),
        ("open", is("open", Box::new(|n| pick(&["true", "false"], n)))),
        ("subject", is("subject", Box::new(|n| format!("node/n-{:05}", n * 97 % 20_000)))),
        ("requested_by", is("requested_by", Box::new(|n| format!("user-{:03}", n * 3 % 300)))),
        ("action", is("action", Box::new(|n| pick(&["CarveSlices", "CreateNamespace"], n)))),
        ("error", is("error", Box::new(|n| pick(CODES, n)))),
        ("approver", is("asked", Box::new(|n| pick(ROLES, n)))),
        ("parent", is("parent", Box::new(move |n| id(mixed(n) % (records / 10).max(1)).to_string()))),
        ("label", is("label", Box::new(|n| format!("team={}", n % 200)))),
        ("created", Box::new(move |n| Query::CreatedBetween { from: within(n).0, until: within(n).1 })),
        ("updated", Box::new(move |n| Query::UpdatedBetween { from: within(n).0, until: within(n).1 })),
        ("no value there is", is("error", Box::new(|n| format!("no.{n}")))),
        (
            "tenant and phase",
            Box::new(|n| {
                Query::is("tenant", format!("tenant-{:03}", n * 7 % TENANTS))
                    .and(Query::is("phase", "parked"))
            }),
        ),
        (
            "two of many each",
            Box::new(|n| Query::is("workflow", pick(WORKFLOWS, n)).and(Query::is("open", "false"))),
        ),
        ("no field at all", Box::new(|n| Query::Not(Box::new(Query::is("tenant", format!("t-{n}")))))),
    ]
}

/// Reads first pages, and prints their times; returns the 99th percentile.
async fn measure(store: &Embedded, name: &str, query: &dyn Fn(u64) -> Query) -> Duration {
    let (mut took, mut items, mut partial) = (Vec::new(), 0, 0);
    for n in 0..TIMES {
        let query = query(n);
        let began = Instant::now();
        let page = store.search(&query, None, PAGE).await.expect("the store answers");
        took.push(began.elapsed());
        items += page.items.len() as u64;
        partial += u64::from(page.partial);
    }
    took.sort_unstable();
    let of = |hundredth: usize| took[(took.len() - 1) * hundredth / 100];
    let items = items / TIMES;
    println!(
        "{name:<20} p50 {:>9.2?}  p99 {:>9.2?}  {items:>3} a page, {partial} ended early",
        of(50),
        of(99)
    );
    of(99)
}

fn open(dir: &Path) -> (Arc<Embedded>, Duration) {
    let began = Instant::now();
    let opened = Embedded::open(dir, Options::default()).expect("the store opens");
    (Arc::new(opened.store), began.elapsed())
}

#[tokio::main]
async fn main() -> ExitCode {
    let records = std::env::var("SEARCH_RECORDS").ok().and_then(|n| n.parse().ok()).unwrap_or(RECORDS);
    let dir = tempfile::tempdir().expect("a folder");
    let (store, _) = open(dir.path());
    let began = Instant::now();
    fill(&store, records).await;
    let committed = began.elapsed();
    store.close().await.expect("the store closes");
    let indexed = began.elapsed();
    drop(store);
    let (store, opening) = open(dir.path());
    let health = store.health().await;
    let rate = |took: Duration| records as f64 / took.as_secs_f64();
    println!(
        "{records} executions: {:.0} a second committed, {:.0} a second indexed; opened in {opening:.2?}",
        rate(committed),
        rate(indexed)
    );
    println!("{} MiB of rows, {} MiB on disk", health.live_bytes >> 20, health.disk_bytes >> 20);

    let mut slowest = Duration::ZERO;
    for (name, query) in searches(records) {
        slowest = slowest.max(measure(&store, name, &query).await);
    }
    store.close().await.expect("the store closes");
    println!("the slowest of a hundred, over all fields: {slowest:.2?} (to reach: under {WITHIN:?})");
    if slowest < WITHIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
