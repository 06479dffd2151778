//! `cargo bench -p tests --bench admission`: the cost of an admission and of a workload's end in a large tenant: 32 workspaces, 400
//! nodes, 2,500 running workloads, on the in-memory store. Also the time of 400 simultaneous submits of that tenant, on the embedded
//! store and on PostgreSQL, with one and two engines. Prints the times. Exits non-zero if such a pair takes longer than 5 ms, if one
//! of the submits fails, or if the last answer takes longer than 5 s.

use engine::{Engine, ManualClock};
use std::{
    path::Path,
    process::ExitCode,
    sync::Arc,
    time::{Duration, Instant},
};
use store::{
    Commit, Embedded, Memory, Options, Store,
    postgres::{Postgres, PostgresOptions},
};
use tests::{
    books::account::{World, gpus, job, tenant},
    servers::postgres::{Cluster, Disk, installed, schema},
};
use workflows::{
    scheduling::admission::{finish, submit},
    tenancy::{Admission, AdmissionVerdict, WorkspaceClass},
};

/// The limit.
const EACH: Duration = Duration::from_millis(5);
const PAIRS: u32 = 2_000;
/// The number of simultaneous submits, and the time limit of the last one.
const CROWD: usize = 400;
const LAST: Duration = Duration::from_secs(5);

async fn decide<T>(
    store: &Memory,
    world: &World,
    attempt: impl FnMut(&mut engine::View) -> Result<T, engine::Undecided>,
) -> T {
    let decided = engine::decide(store, world.books.now, attempt).await.unwrap();
    let commit = Commit { reads: decided.reads, documents: decided.puts, ..Commit::default() };
    store.commit(commit).await.unwrap();
    decided.result.unwrap()
}

async fn ask(store: &Memory, world: &World, workspace: &str, name: &str) -> Admission {
    let request = job(workspace, name, 1);
    decide(store, world, |view| submit(view, &request)).await.admission
}

/// Submits simultaneously to engines on `stores` in turn. Prints the time of the last answer; returns false if that was too late, or
/// one failed.
async fn crowd(name: &str, stores: Vec<Arc<dyn Store>>) -> bool {
    let world = World::new(8).with(&[("a", gpus(64, None, None))]);
    let first = &stores[0];
    first.commit(Commit { documents: world.books.puts(), ..Commit::default() }).await.unwrap();
    let clock = Arc::new(ManualClock::starting_at(world.books.now));
    let engines: Vec<Engine<()>> =
        stores.iter().map(|store| Engine::new(store.clone(), clock.clone(), ())).collect();

    let started = Instant::now();
    let asking: Vec<_> = (0..CROWD)
        .map(|n| {
            let engine = engines[n % engines.len()].clone();
            let request = job("a", &format!("crowd-{n:03}"), 1);
            tokio::spawn(async move {
                let answered = engine.transact(true, |view| submit(view, &request)).await;
                (started.elapsed(), answered.map(|submitted| submitted.admission.answer))
            })
        })
        .collect();
    let (mut waits, mut failed) = (Vec::new(), 0);
    for one in asking {
        let (waited, answered) = one.await.unwrap();
        failed += usize::from(answered.is_err());
        waits.push(waited);
    }
    waits.sort_unstable();
    let (middle, last) = (waits[CROWD / 2], waits[CROWD - 1]);

    println!(
        "{name}: {CROWD} submits at once: half within {middle:?}, all within {last:?} (at most {LAST:?}), {failed} failed"
    );
    failed == 0 && last <= LAST
}

async fn crowds(folder: &Path) -> bool {
    let embedded = Arc::new(Embedded::open(folder, Options::default()).unwrap().store);
    let mut good = crowd("embedded", vec![embedded.clone()]).await;
    embedded.close().await.unwrap();
    let Some(bin) = installed() else { return good };
    let cluster = Cluster::start(bin, Disk::Synced).unwrap();
    for count in 1..=2 {
        let options = PostgresOptions { schema: schema(), ..PostgresOptions::for_url(cluster.url()) };
        let mut stores: Vec<Arc<dyn Store>> = Vec::new();
        for _ in 0..count {
            stores.push(Arc::new(Postgres::open(options.clone()).await.unwrap()));
        }
        good &= crowd(&format!("PostgreSQL, {count} engine(s)"), stores).await;
    }
    good
}

fn main() -> ExitCode {
    let one = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let many = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let pairs = one.block_on(pairs());
    let folder = tempfile::tempdir().unwrap();
    if many.block_on(crowds(folder.path())) { pairs } else { ExitCode::FAILURE }
}

async fn pairs() -> ExitCode {
    let names: Vec<String> = (0..32).map(|n| format!("ws-{n:02}")).collect();
    let mut world = World::new(400);
    for name in &names {
        world.allow(name, WorkspaceClass::Batch, gpus(100, None, None));
    }
    let store = Memory::new();
    store.commit(Commit { documents: world.books.puts(), ..Commit::default() }).await.unwrap();
    // A quarter of the workspaces borrow.
    for n in 0..2_500 {
        let workspace = if n % 3 == 0 { n % 8 } else { n % 32 };
        let admission = ask(&store, &world, &names[workspace], &format!("run-{n:04}")).await;
        assert_eq!(admission.answer, AdmissionVerdict::Admit, "{n}: {:?}", admission.weighed);
    }

    let started = Instant::now();
    for n in 0..PAIRS {
        let name = format!("more-{n}");
        ask(&store, &world, &names[n as usize % 32], &name).await;
        decide(&store, &world, |view| finish(view, &tenant(), &name)).await;
    }
    let each = started.elapsed() / PAIRS;

    println!("an admission and an end beside 2,500 workloads: {each:?} (at most {EACH:?})");
    if each <= EACH { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
