//! The costs of leasing: each statement by itself, by the number of tenants with tasks; then several processes that compete.

use crate::{batches::open, cpu, say};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use store::{ExecutionId, Lease, Store, Timestamp, postgres::Postgres};
use tests::servers::postgres::Cluster;

/// The number of open tasks.
const OPEN: u64 = 200_000;
/// The tasks that a process leases at once: `engine.concurrency`.
const PLACES: usize = 64;
const ROUND: Duration = Duration::from_secs(3);
/// The time of the leases; tasks are due before or after it.
const NOW: Timestamp = Timestamp(1_000_000);

/// Fills the queue again: tasks of `tenants` tenants in turn, due in the past or far in the future.
fn fill(cluster: &Cluster, tenants: u64, due: bool) {
    let at = if due { "1000" } else { "2000000000" };
    let sql = format!(
        "TRUNCATE tenure.tasks; INSERT INTO tenure.tasks (execution, visit, slot, tenant, due, available, body, deliveries) \
         SELECT gen_random_uuid(), 1, 0, 't-' || (n % {tenants}), {at} + n, {at} + n, '', 0 FROM generate_series(1, {OPEN}) n"
    );
    cluster.sql(&sql).expect("it is filled");
    cluster.sql("VACUUM ANALYZE tenure.tasks").expect("it is swept");
}

/// Measures the duration of one call and its share of the server's processor, in microseconds.
async fn each<F: Future<Output = ()>>(cluster: &Cluster, mut call: impl FnMut() -> F) -> (f64, f64) {
    let (used, began) = (cpu::server(cluster), Instant::now());
    let mut calls = 0.0;
    while began.elapsed() < ROUND {
        call().await;
        calls += 1.0;
    }
    (1e6 * began.elapsed().as_secs_f64() / calls, 1e6 * (cpu::server(cluster) - used) / calls)
}

pub(crate) async fn measure(cluster: &Cluster) {
    let url = format!("postgres://tenure@127.0.0.1:{}/postgres?sslmode=disable", cluster.port());
    let store = open("lessee", url.clone()).await;
    println!("\n== leases, one process, {OPEN} open tasks");
    for tenants in [1, 100, 1_000, 10_000] {
        fill(cluster, tenants, false);
        let idle = each(cluster, || async { assert!(lease(&store, PLACES).await.is_empty()) }).await;
        let next = each(cluster, || async {
            _ = store.next_due().await.expect("it answers");
        })
        .await;
        fill(cluster, tenants, true);
        let few = each(cluster, || async { assert_eq!(lease(&store, 1).await.len(), 1) }).await;
        let many = each(cluster, || async { assert_eq!(lease(&store, PLACES).await.len(), PLACES) }).await;
        println!(
            "{tenants:>6} tenants: look in vain {:>7.0} us ({:>7.0} of the server's), next due {:>4.0} us ({:>4.0}), lease 1: {:>7.0} us ({:>7.0}), lease 64: {:>8.0} us ({:>8.0})",
            idle.0, idle.1, next.0, next.1, few.0, few.1, many.0, many.1
        );
    }
    fill(cluster, 100, true);
    let held: Vec<Lease> = lease(&store, PLACES).await;
    let turn = AtomicU64::new(0);
    let renewed =
        each(cluster, || {
            let held = &held[usize::try_from(turn.fetch_add(1, Ordering::Relaxed)).unwrap_or(0) % held.len()];
            let store = store.clone();
            async move {
                store.renew(held.task.id, held.epoch, Timestamp(NOW.0 + 60_000)).await.expect("it is held")
            }
        })
        .await;
    say("l_renew", renewed.1, "us", "processor time of the server, a renewal");
    println!("a renewal takes {:.0} us", renewed.0);
    println!("\n== leases of 64, several processes at once, {OPEN} tasks due of 100 tenants");
    for processes in [1, 2, 4, 8] {
        fill(cluster, 100, true);
        contend(cluster, &url, processes).await;
    }
    cluster.sql("TRUNCATE tenure.tasks").expect("it is emptied");
    takeover(cluster, &url).await;
}

async fn lease(store: &Arc<Postgres>, limit: usize) -> Vec<Lease> {
    store.lease("bench", NOW, Duration::from_secs(3_000), limit).await.expect("it leases")
}

async fn contend(cluster: &Cluster, url: &str, processes: usize) {
    let mut stores = Vec::new();
    for n in 0..processes {
        stores.push(open(&format!("rival-{n}"), url.to_owned()).await);
    }
    let (taken, calls, vain) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let (used, began) = (cpu::server(cluster), Instant::now());
    let all = stores.iter().map(|store| async {
        while began.elapsed() < ROUND {
            let got = lease(store, PLACES).await.len() as u64;
            taken.fetch_add(got, Ordering::Relaxed);
            calls.fetch_add(1, Ordering::Relaxed);
            vain.fetch_add(u64::from(got == 0), Ordering::Relaxed);
        }
    });
    join_all(all.collect()).await;
    let (took, used) = (began.elapsed().as_secs_f64(), cpu::server(cluster) - used);
    let (taken, calls, vain) =
        (taken.into_inner() as f64, calls.into_inner() as f64, vain.into_inner() as f64);
    println!(
        "{processes} processes: {:.0} tasks/s, {:.1} a call, {:.0} % of calls in vain, {:.0} us of the server's processor a task",
        taken / took,
        taken / calls,
        100.0 * vain / calls,
        1e6 * used / taken
    );
    for store in stores {
        store.close().await.expect("it closes");
    }
}

/// Polls all of them concurrently, on this task.
async fn join_all<F: Future<Output = ()>>(all: Vec<F>) {
    let mut all: Vec<_> = all.into_iter().map(Box::pin).collect();
    std::future::poll_fn(|context| {
        all.retain_mut(|one| one.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// One process dies with its tasks, and another looks as the engine does. Prints the time from the death until it has all
/// of them.
async fn takeover(cluster: &Cluster, url: &str) {
    const LEASE: Duration = Duration::from_secs(3);
    const HELD: usize = 64;
    println!("\n== takeover, leases of 3 s, {HELD} tasks held by the process that is killed");
    let (one, two) = (open("dies", url.to_owned()).await, open("follows", url.to_owned()).await);
    let now = || {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        Timestamp(u64::try_from(since.as_millis()).expect("in range"))
    };
    for n in 0..HELD as u64 {
        let mut commit = crate::batches::transition(10_000_000 + n, 0);
        commit.schedule[0].due = Timestamp(1);
        one.commit(commit).await.expect("it commits");
    }
    let some = ExecutionId::new(Timestamp(10_000_001), [7; 10]);
    let read = each(cluster, || async { assert!(one.load(some).await.expect("it answers").is_some()) }).await;
    say("l_load", read.1, "us", "processor time of the server, a record read");
    let held = one.lease("dies", now(), LEASE, HELD).await.expect("it leases");
    assert_eq!(held.len(), HELD);
    let died = Instant::now();
    let mut taken = 0;
    while taken < HELD {
        let leases = two.lease("follows", now(), LEASE * 10, HELD).await.expect("it leases");
        taken += leases.len();
        if leases.is_empty() {
            let next = two.next_due().await.expect("it answers").expect("there is more");
            let wait = next.since(now()).clamp(Duration::from_millis(1), Duration::from_secs(60));
            // The worker also receives notifications, and looks then.
            _ = tokio::time::timeout(wait, two.wait_for_changes()).await;
        }
    }
    say(
        "takeover",
        died.elapsed().as_secs_f64(),
        "s",
        "from a death just after leasing until another has all of it",
    );
}
