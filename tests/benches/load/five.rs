//! Five steps: closed loops, an open one, and decisions while many executions wait.

use crate::{
    flow::Desk,
    house::House,
    machine, number,
    report::{heads, within},
};
use std::{
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};
use tests::servers::postgres::{Cluster, Disk, installed};

/// Device syncs of consecutive steps: one for the start, one for each step.
const SYNCS: f64 = 6.0;
/// The maximum bytes of the journal for each, with 128 in flight.
const JOURNAL: f64 = 2048.0;

pub async fn run(dir: &Path, span: Duration) -> ExitCode {
    let house = House::at(&dir.join("store"), Desk::default(), 1024);
    let working = house.works();
    let at = number("AT", 0);
    let reached = if at > 0 {
        heads("W5");
        drop(house.closed(at, span / 5).await);
        drop(house.closed(at, span).await.told(&format!("{at} in flight")));
        true
    } else {
        let (syncs, journal) = walk(&house, dir, span).await;
        decide(&house, dir, number("PARKED", 100_000)).await;
        println!(
            "to reach: {SYNCS} syncs for one ({syncs:.2}); {JOURNAL} bytes of the journal at 128 ({journal:.0})"
        );
        syncs <= SYNCS + 0.05 && journal <= JOURNAL
    };
    house.ends(working).await;
    if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// In memory, on the runtime's cores: the cost of the engine itself.
pub async fn in_memory(span: Duration) -> ExitCode {
    let house = House::in_memory(1024);
    let working = house.works();
    heads("W5 in memory");
    drop(house.closed(128, span / 5).await);
    let row = house.closed(128, span).await.told("128 in flight");
    println!("transitions a second on one core: {:.0} (to reach: 20,000)", row.rate() * 6.0);
    house.ends(working).await;
    if row.rate() * 6.0 >= 20_000.0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Closed loops, then an open one at half of the highest throughput; returns the syncs of a single walk, and the bytes of the journal at 128.
async fn walk(house: &Arc<House>, dir: &Path, span: Duration) -> (f64, f64) {
    let mut bare = machine::syncs(dir, 2_000);
    let alone = machine::within(&mut bare, 500);
    println!(
        "load of the machine {}; writing and syncing 4 KiB in an existing file: {alone:.2?}",
        machine::load()
    );
    heads("W5");
    drop(house.closed(64, span / 5).await);
    let one = house.closed(1, span).await.told("1 in flight");
    drop(house.closed(16, span).await.told("16 in flight"));
    let many = house.closed(128, span).await.told("128 in flight");
    let most = house.closed(1024, span).await.told("1,024 in flight");
    let p50 = within(&one.times, 50.0);
    println!("p50 of one beside six syncs: {:.2}", p50.as_secs_f64() / (6.0 * alone.as_secs_f64()));
    dispatched(house, most.rate() / 2.0, span).await;
    (one.each(one.syncs), many.each(many.journal))
}

/// Decisions, one at a time, while `parked` executions wait.
async fn decide(house: &Arc<House>, dir: &Path, parked: usize) {
    let bare = machine::within(&mut machine::syncs(dir, 2_000), 500);
    let (rss, disk) = (machine::rss(), house.rest().await.disk_bytes);
    let began = Instant::now();
    let mut ids = house.park(parked).await;
    let (more, bytes) =
        (machine::rss().saturating_sub(rss), house.rest().await.disk_bytes.saturating_sub(disk));
    println!(
        "{parked} parked in {:.1?}: {} bytes of memory each, {} on disk",
        began.elapsed(),
        more / parked.max(1) as u64,
        bytes / parked.max(1) as u64
    );
    ids.truncate(1_000);
    let (decisions, ends) = house.decide_each(&ids).await;
    for (what, times) in [("a decision until it is acknowledged", decisions), ("from there to the end", ends)]
    {
        println!("{what}: p50 {:.2?}, p99 {:.2?}", within(&times, 50.0), within(&times, 99.0));
    }
    println!("six syncs {:.2?}, three {:.2?}", bare * 6, bare * 3);
}

/// On PostgreSQL: the throughput, and at half of it the delay from a result to the next step.
pub async fn on_postgres(span: Duration) -> ExitCode {
    const WITHIN: Duration = Duration::from_millis(10);
    let Some(bin) = installed() else { return ExitCode::FAILURE };
    let cluster = Cluster::start(bin, Disk::Synced).expect("a server");
    let house = House::on_postgres(cluster.url(), 1024).await;
    let working = house.works();
    println!("load of the machine {}", machine::load());
    heads("W5 on PostgreSQL");
    drop(house.closed(64, span / 5).await);
    drop(house.closed(1, span).await.told("1 in flight"));
    let many = house.closed(128, span).await.told("128 in flight");
    let p99 = dispatched(&house, many.rate() / 2.0, span).await;
    house.ends(working).await;
    println!("to reach: {WITHIN:?} at p99");
    if p99 <= WITHIN { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The delay from a result to the next step, at `rate` a second; returns the p99.
async fn dispatched(house: &Arc<House>, rate: f64, span: Duration) -> Duration {
    drop(house.desk.dispatches());
    drop(house.open(rate, span).await.told("half of that, open loop"));
    let mut dispatches = house.desk.dispatches();
    let p99 = machine::within(&mut dispatches, 990);
    println!(
        "a result on disk to the next step begun: p50 {:.2?}, p99 {p99:.2?}",
        machine::within(&mut dispatches, 500)
    );
    p99
}
