//! The primary dies, and the standby replaces it.

use super::opened;
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};
use store::{
    Commit, Error, Key, Put, Store,
    postgres::{Postgres, PostgresOptions},
};
use tests::{
    proxies::tcp::Proxy,
    servers::postgres::{Cluster, Disk, installed},
};

/// With a synchronous standby no acknowledged commit is lost, and writing continues by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_acknowledged_commit_is_lost_when_a_standby_takes_over() {
    let Some(bin) = installed() else { return };
    let _alone = tests::alone().await;
    let mut primary = Cluster::start(bin, Disk::Synced).unwrap();
    let standby = primary.standby().unwrap();
    let wire = Proxy::to(primary.port()).unwrap();
    let url = format!("postgres://tenure@127.0.0.1:{}/postgres?sslmode=disable", wire.port());
    let store = opened(&PostgresOptions::for_url(url)).await;
    let written = Arc::new(AtomicU64::new(0));
    let put = |writer: u64, n: u64| Commit {
        documents: vec![Put { key: Key::new("things", format!("{writer}-{n}")), body: Some(vec![1]) }],
        ..Commit::default()
    };
    let stop = Arc::new(AtomicU64::new(0));
    let writers: Vec<_> = (0..8)
        .map(|writer| {
            let (store, written, stop) = (store.clone(), written.clone(), stop.clone());
            tokio::spawn(async move {
                let mut acknowledged = 0;
                while stop.load(Ordering::Acquire) == 0 {
                    store.commit(put(writer, acknowledged)).await.unwrap();
                    acknowledged += 1;
                    written.fetch_add(1, Ordering::Release);
                }
                acknowledged
            })
        })
        .collect();
    let reached = async |count: u64| {
        while written.load(Ordering::Acquire) < count {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    reached(400).await;

    let died = Instant::now();
    primary.kill();
    let before = written.load(Ordering::Acquire);
    standby.promote().unwrap();
    wire.lead_to(standby.port());
    reached(before + 9).await;
    println!("writing again {:?} after the primary was killed, promotion included", died.elapsed());
    reached(before + 200).await;
    stop.store(1, Ordering::Release);

    for (writer, ended) in writers.into_iter().enumerate() {
        for n in 0..ended.await.unwrap() {
            let found = store.document(&Key::new("things", format!("{writer}-{n}"))).await.unwrap();
            assert!(found.is_some(), "{writer}-{n} was acknowledged and is lost");
        }
    }
    store.close().await.unwrap();
}

/// Both may have been started at once. A short timeout reports that the database is away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_starts_before_its_database_waits_for_it() {
    let Some(bin) = installed() else { return };
    let mut cluster = Cluster::start(bin, Disk::Synced).unwrap();
    let options = PostgresOptions { connections: 3, ..PostgresOptions::for_url(cluster.url()) };
    cluster.kill();
    let hasty = PostgresOptions { retry_timeout: Duration::from_millis(100), ..options.clone() };
    let refused = Postgres::open(hasty).await.map(drop);
    let at = format!("127.0.0.1:{}", cluster.port());
    assert!(matches!(&refused, Err(Error::Unavailable { why }) if why.contains(&at)), "{refused:?}");

    let started = Instant::now();
    let up = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        cluster.up().unwrap();
    };
    let (opened, ()) = tokio::join!(Postgres::open(options), up);

    let store = opened.unwrap();
    assert!(started.elapsed() >= Duration::from_millis(300) && store.health().await.writable);
    store.close().await.unwrap();
}

/// A server that knows the commits continues. A server without that knowledge, and without others at work, cannot distinguish the new
/// primary from a copy, and does nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_promoted_replica_is_held_unless_a_server_that_was_running_before_finds_it() {
    let Some(bin) = installed() else { return };
    let _alone = tests::alone().await;
    for has_seen_it in [false, true] {
        let mut primary = Cluster::start(bin, Disk::Synced).unwrap();
        let standby = primary.standby().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let known = PostgresOptions {
            watermark_file: Some(dir.path().join("database-seen")),
            ..PostgresOptions::for_url(primary.url())
        };
        let store = opened(&known).await;
        let put = Put { key: Key::new("things", "one"), body: Some(vec![1]) };
        store.commit(Commit { documents: vec![put], ..Commit::default() }).await.unwrap();
        store.close().await.unwrap();
        primary.kill();
        standby.promote().unwrap();

        let command = opened(&PostgresOptions::for_url(standby.url())).await;
        assert_eq!(command.current_hold().await.unwrap(), None, "a command leaves that to the servers");
        command.close().await.unwrap();
        let fresh = PostgresOptions {
            watermark_file: Some(dir.path().join("nothing-seen")),
            ..PostgresOptions::for_url(standby.url())
        };
        let options = if has_seen_it { PostgresOptions { url: standby.url(), ..known } } else { fresh };
        let promoted = opened(&options).await;

        let hold = promoted.current_hold().await.unwrap();
        assert_eq!(hold.is_none(), has_seen_it, "{hold:?}");
        if let Some(hold) = hold {
            assert!(hold.why.contains("a replica was promoted"), "{hold:?}");
            assert!(promoted.unhold(hold.since).await.unwrap());
            let again = opened(&options).await;
            assert_eq!(again.current_hold().await.unwrap(), None, "it is confirmed once");
            again.close().await.unwrap();
        }
        promoted.close().await.unwrap();
    }
}
