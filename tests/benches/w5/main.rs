//! `cargo bench -p tests --bench w5`: five steps one after the other, each result on disk before the next begins, on the embedded
//! store with journal, leases and index as in production; closed loop at 1 to 1,024 in flight, open loop at half of what that brings; and
//! decisions with many parked. Prints counts, processor time, and times beside what the disk does by itself in the same run.
//!
//! `PARKED` is how many wait while decisions are measured (default 100,000), `SECONDS` how long each part runs (default 10). With `AT` only so
//! many at a time, as `compare.sh` asks for beside others.

/// As in the program itself.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod flow;
mod machine;

use engine::{Engine, Options, Person, Request, SystemClock, Verdict};
use flow::{A1, Desk, W5};
use std::{
    env,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{Embedded, Health, Store as _};
use tokio::task::JoinSet;

/// Device syncs of one after the other: one to begin, one a step.
const SYNCS: f64 = 6.0;
/// Bytes of the journal for each with 128 in flight.
const JOURNAL: f64 = 2048.0;

struct House {
    engine: Engine<Desk>,
    store: Arc<Embedded>,
    desk: Arc<Desk>,
    client: Person,
}

/// What was counted over some time.
struct Counts {
    ended: usize,
    took: Duration,
    times: Vec<Duration>,
    syncs: u64,
    journal: u64,
    device: u64,
    cpu: Duration,
}

impl Counts {
    #[allow(clippy::cast_precision_loss, reason = "counts of a bench")]
    fn each(&self, amount: u64) -> f64 {
        amount as f64 / self.ended.max(1) as f64
    }

    fn rate(&self) -> f64 {
        #[allow(clippy::cast_precision_loss, reason = "counts of a bench")]
        let ended = self.ended as f64;
        ended / self.took.as_secs_f64()
    }

    fn cpu_ms(&self) -> f64 {
        self.each(u64::try_from(self.cpu.as_micros()).unwrap_or(u64::MAX)) / 1000.0
    }
}

impl House {
    /// Lets the index take over what is behind, so that its bytes are counted where they belong.
    async fn rest(&self) -> Health {
        loop {
            let health = self.store.health().await;
            if health.index_lag == 0 {
                return health;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn counted(&self, work: impl Future<Output = Vec<Duration>>) -> Counts {
        let (before, device, cpu, began) =
            (self.rest().await, machine::written(), machine::cpu(), Instant::now());
        let times = work.await;
        let took = began.elapsed();
        let after = self.rest().await;
        Counts {
            ended: times.len(),
            took,
            times,
            syncs: after.syncs - before.syncs,
            journal: after.written_bytes - before.written_bytes,
            device: machine::written() - device,
            cpu: machine::cpu() - cpu,
        }
    }

    async fn one(&self) -> Duration {
        let began = Instant::now();
        let started = self.engine.start(W5::default(), Request::by(&self.client)).await.expect("it is begun");
        self.desk.end(started.id).await - began
    }

    /// So many at a time, each followed by the next.
    async fn closed(self: &Arc<Self>, at_once: usize, span: Duration) -> Counts {
        let work = async {
            let until = Instant::now() + span;
            let mut clients = JoinSet::new();
            for _ in 0..at_once {
                let house = self.clone();
                clients.spawn(async move {
                    let mut times = Vec::new();
                    while Instant::now() < until {
                        times.push(house.one().await);
                    }
                    times
                });
            }
            clients.join_all().await.concat()
        };
        self.counted(work).await
    }

    /// So many a second, whether or not those before have ended.
    async fn open(self: &Arc<Self>, rate: f64, span: Duration) -> Counts {
        let work = async {
            let mut beat = tokio::time::interval(Duration::from_secs_f64(1.0 / rate));
            let until = Instant::now() + span;
            let mut clients = JoinSet::new();
            while Instant::now() < until {
                beat.tick().await;
                let house = self.clone();
                clients.spawn(async move { house.one().await });
            }
            clients.join_all().await
        };
        self.counted(work).await
    }

    /// Begins so many that wait for a person, and answers with their names once they do.
    async fn park(self: &Arc<Self>, count: usize) -> Vec<store::ExecutionId> {
        let mut clients = JoinSet::new();
        for lane in 0..256 {
            let house = self.clone();
            let share = count / 256 + usize::from(lane < count % 256);
            clients.spawn(async move {
                let mut ids = Vec::with_capacity(share);
                for _ in 0..share {
                    let asked = Request::by(&house.client);
                    ids.push(house.engine.start(A1::default(), asked).await.expect("it is begun").id);
                }
                ids
            });
        }
        let ids = clients.join_all().await.concat();
        for id in &ids {
            while self.engine.approval(*id).await.expect("it can be read").is_none() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        ids
    }

    /// From a decision that is asked for to the end behind it.
    async fn decide(&self, id: store::ExecutionId, editor: &Person) -> Duration {
        let asked = self.engine.approval(id).await.expect("it can be read").expect("it waits");
        let began = Instant::now();
        self.engine.vote(id, editor, Verdict::Approve, &asked.digest, "yes").await.expect("it is decided");
        self.desk.end(id).await - began
    }
}

fn number(name: &str, default: u64) -> u64 {
    env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Prints a row, and answers with what was counted.
fn told(what: &str, mut counts: Counts) -> Counts {
    println!(
        "| {what} | {:.0} | {:.2?} | {:.2?} | {:.2} | {:.3} | {:.0} | {:.0} |",
        counts.rate(),
        machine::within(&mut counts.times, 500),
        machine::within(&mut counts.times, 990),
        counts.each(counts.syncs),
        counts.cpu_ms(),
        counts.each(counts.journal),
        counts.each(counts.device),
    );
    counts
}

fn house(dir: &std::path::Path) -> Arc<House> {
    let store = Arc::new(Embedded::open(dir, store::Options::default()).expect("a store").store);
    let desk = Arc::new(Desk::default());
    let told = desk.clone();
    let engine = Engine::new(store.clone(), Arc::new(SystemClock), desk.clone())
        .with::<W5>()
        .expect("sound")
        .with::<A1>()
        .expect("sound")
        .options(Options { concurrency: 1024, ..Options::default() })
        .watched(move |id, edges| told.moved(id, edges));
    Arc::new(House { engine, store, desk, client: Person::new("client", ["writer"]) })
}

/// Closed loops, then an open one at half of what the widest brought; answers with the syncs of one alone, and the bytes of the journal at 128.
async fn walk(house: &Arc<House>, dir: &std::path::Path, span: Duration) -> (f64, f64) {
    let mut bare = machine::syncs(dir, 2_000);
    let alone = machine::within(&mut bare, 500);
    println!(
        "load of the machine {}; 4 KiB into a file made ahead, and its sync: {alone:.2?}",
        machine::load()
    );
    heads();
    drop(house.closed(64, span / 5).await);
    let mut one = told("1 in flight", house.closed(1, span).await);
    drop(told("16 in flight", house.closed(16, span).await));
    let many = told("128 in flight", house.closed(128, span).await);
    let most = told("1,024 in flight", house.closed(1024, span).await);
    drop(house.desk.dispatches());
    drop(told("half of that, open loop", house.open(most.rate() / 2.0, span).await));
    let mut dispatches = house.desk.dispatches();
    let p50 = machine::within(&mut one.times, 500);
    println!("p50 of one beside six syncs: {:.2}", p50.as_secs_f64() / (6.0 * alone.as_secs_f64()));
    println!(
        "a result on disk to the next step begun: p50 {:.2?}, p99 {:.2?}",
        machine::within(&mut dispatches, 500),
        machine::within(&mut dispatches, 990)
    );
    (one.each(one.syncs), many.each(many.journal))
}

fn heads() {
    println!(
        "| W5 | a second | p50 | p99 | syncs each | CPU ms each | journal bytes each | all bytes each |"
    );
    println!("|---|---|---|---|---|---|---|---|");
}

/// Decisions, one at a time, while so many wait.
async fn decide(house: &Arc<House>, parked: usize) {
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
    let editor = Person::new("editor", ["editor"]);
    let decisions = house
        .counted(async {
            let mut times = Vec::new();
            for id in ids.drain(..parked.min(1_000)) {
                times.push(house.decide(id, &editor).await);
            }
            times
        })
        .await;
    println!("| A1, from the decision to the end | a second | p50 | p99 | syncs | CPU ms | journal | all |");
    drop(told("one at a time", decisions));
}

#[tokio::main]
async fn main() -> ExitCode {
    let dir = tempfile::tempdir().expect("a folder");
    let span = Duration::from_secs(number("SECONDS", 10));
    let house = house(&dir.path().join("store"));
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let engine = house.engine.clone();
    let working = tokio::spawn(async move { engine.run(async { drop(stopped.await) }).await });

    let at = usize::try_from(number("AT", 0)).unwrap_or(usize::MAX);
    let reached = if at > 0 {
        heads();
        drop(house.closed(at, span / 5).await);
        drop(told(&format!("{at} in flight"), house.closed(at, span).await));
        true
    } else {
        let (syncs, journal) = walk(&house, dir.path(), span).await;
        decide(&house, usize::try_from(number("PARKED", 100_000)).unwrap_or(usize::MAX)).await;
        println!(
            "to reach: {SYNCS} syncs for one ({syncs:.2}); {JOURNAL} bytes of the journal at 128 ({journal:.0})"
        );
        syncs <= SYNCS + 0.05 && journal <= JOURNAL
    };
    stop.send(()).expect("it works");
    working.await.expect("no panic").expect("it stops");
    house.store.close().await.expect("it closes");
    if reached { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
