//! Faults: disks that are full or broken, an index that fails, hangs or makes no progress.

use crate::{Commit, Error, Faults, Options, Store, tests::fixture::*};
use std::{
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

const SOON: Duration = Duration::from_secs(20);

fn breakable() -> (Options, Arc<Faults>) {
    let options = unhurried();
    let faults = options.faults.clone();
    (options, faults)
}

/// Commits until it succeeds; the store must recover by itself.
async fn commits_again(store: &dyn Store, commit: Commit) {
    let again = async {
        loop {
            match store.commit(commit.clone()).await {
                Ok(_) => return,
                Err(Error::Unavailable { .. } | Error::Full { .. }) => {
                    tokio::time::sleep(Duration::from_millis(10)).await
                }
                Err(error) => panic!("{error}"),
            }
        }
    };
    tokio::time::timeout(SOON, again).await.expect("it did not recover");
}

fn free(amount: &Arc<AtomicU64>) -> crate::FreeSpace {
    let amount = amount.clone();
    Arc::new(move |_: &Path| Ok(amount.load(Ordering::Relaxed)))
}

#[tokio::test]
async fn a_commit_whose_sync_failed_is_not_acknowledged_and_not_partly_visible() {
    let folder = tempfile::tempdir().unwrap();
    let (options, faults) = breakable();
    let (store, _) = open(folder.path(), options.clone());
    store.commit(put("a", b"1")).await.unwrap();
    faults.fail_sync.store(true, Ordering::Relaxed);

    let failed = store.commit(put("a", b"2")).await;

    assert!(matches!(failed, Err(Error::Unavailable { .. })), "{failed:?}");
    assert_eq!(body_of(&store, "a").await.unwrap(), b"1");
    assert!(!store.health().await.writable);
    faults.fail_sync.store(false, Ordering::Relaxed);
    commits_again(&store, put("b", b"3")).await;
    assert_eq!(store.health().await.problem, None);
    store.kill().await;
    drop(store);
    std::fs::remove_dir_all(folder.path().join("index")).unwrap();
    let (store, report) = open(folder.path(), options);
    assert_eq!(report.sequence.0, 2, "{report}");
    assert_eq!(body_of(&store, "a").await.unwrap(), b"1");
    assert_eq!(body_of(&store, "b").await.unwrap(), b"3");
    store.close().await.unwrap();
}

#[tokio::test]
async fn on_a_full_disk_executions_continue_and_none_begin() {
    let folder = tempfile::tempdir().unwrap();
    let amount = Arc::new(AtomicU64::new(1 << 30));
    let options = Options { free_space: free(&amount), ..unhurried() };
    let (store, _) = open(folder.path(), options);
    store.commit(nth(1)).await.unwrap();
    let tick = || tokio::time::sleep(Duration::from_millis(100));

    amount.store(40 << 20, Ordering::Relaxed);
    tick().await;
    let begun = store.commit(nth(2)).await;
    assert!(matches!(&begun, Err(Error::Full { what }) if what.contains("40 MiB are free")), "{begun:?}");
    assert!(store.health().await.problem.is_some());
    store.commit(put("a", b"1")).await.unwrap();

    amount.store(15 << 20, Ordering::Relaxed);
    tick().await;
    assert!(matches!(store.commit(put("a", b"2")).await, Err(Error::Full { .. })));

    amount.store(1 << 30, Ordering::Relaxed);
    commits_again(&store, nth(2)).await;
    tick().await;
    assert_eq!(store.health().await.problem, None);
    store.close().await.unwrap();
}

#[tokio::test]
async fn commits_are_refused_while_there_is_no_space_for_a_journal_file() {
    let folder = tempfile::tempdir().unwrap();
    let (options, faults) = breakable();
    faults.full_disk.store(true, Ordering::Relaxed);
    let (store, _) = open(folder.path(), options);
    tokio::time::sleep(Duration::from_millis(50)).await;

    assert!(matches!(store.commit(nth(1)).await, Err(Error::Full { .. })));
    let mut written = 0;
    let refused = loop {
        match store.commit(put("a", &[b'x'; 1000])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };

    assert!(matches!(refused, Error::Full { .. }), "{refused}");
    assert!(written > 10, "the current segment had space, but accepted only {written}");
    faults.full_disk.store(false, Ordering::Relaxed);
    commits_again(&store, nth(1)).await;
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_failed_index_is_rebuilt_while_the_store_is_open() {
    let folder = tempfile::tempdir().unwrap();
    let (options, faults) = breakable();
    let (store, _) = open(folder.path(), options);
    for n in 1..=50 {
        store.commit(nth(n)).await.unwrap();
    }
    store.checkpoint().await.unwrap();
    faults.fail_index.store(true, Ordering::Relaxed);
    store.commit(nth(51)).await.unwrap();
    tokio::time::sleep(Duration::from_millis(100)).await;

    let refused = store.commit(nth(52)).await;

    assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
    assert!(!store.health().await.writable);
    faults.fail_index.store(false, Ordering::Relaxed);
    commits_again(&store, nth(52)).await;
    assert_eq!(store.list(&crate::Filter::default(), None, 100).await.unwrap().items.len(), 52);
    assert_eq!(store.health().await.problem, None);
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_stalled_index_ends_the_process_and_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let (options, faults) = breakable();
    let (told, heard) = mpsc::channel();
    let on_stall = Arc::new(move |why: &str| told.send(why.to_owned()).unwrap());
    let (store, _) =
        open(folder.path(), Options { watchdog: Duration::from_millis(200), on_stall, ..options.clone() });
    store.commit(nth(1)).await.unwrap();
    store.checkpoint().await.unwrap();
    faults.stall_index.store(true, Ordering::Relaxed);
    store.commit(nth(2)).await.unwrap();

    let why = tokio::task::spawn_blocking(move || heard.recv_timeout(SOON)).await.unwrap().unwrap();

    assert!(why.contains("no progress"), "{why}");
    store.kill().await;
    drop(store);
    faults.stall_index.store(false, Ordering::Relaxed);
    let (store, report) = open(folder.path(), options);
    assert_eq!(report.rebuilt_index.as_deref(), Some("it made no progress"));
    assert_eq!(report.sequence.0, 2);
    assert_eq!(store.list(&crate::Filter::default(), None, 100).await.unwrap().items.len(), 2);
    store.close().await.unwrap();
}

#[tokio::test]
async fn an_index_that_hangs_while_it_is_opened_is_rebuilt() {
    let folder = tempfile::tempdir().unwrap();
    let (options, faults) = breakable();
    let (store, _) = open(folder.path(), options.clone());
    store.commit(nth(1)).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    faults.hang_open.store(true, Ordering::Relaxed);

    let (store, report) = open(folder.path(), Options { open_stall: Duration::from_millis(200), ..options });

    assert!(report.rebuilt_index.is_some_and(|why| why.contains("made no progress")));
    assert_eq!(store.list(&crate::Filter::default(), None, 100).await.unwrap().items.len(), 1);
    store.close().await.unwrap();
}

#[tokio::test]
async fn commits_wait_when_the_index_falls_too_far_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (options, faults) = breakable();
    let (store, _) = open(folder.path(), Options { backlog_bytes: 64 << 10, ..options });
    faults.stall_index.store(true, Ordering::Relaxed);
    let many = async {
        for _ in 0..200 {
            store.commit(put("a", &[b'x'; 1000])).await.unwrap();
        }
    };

    let waited = tokio::time::timeout(Duration::from_millis(500), many).await;

    assert!(waited.is_err(), "200 KB were taken although 64 KiB may wait");
    faults.stall_index.store(false, Ordering::Relaxed);
    commits_again(&store, put("a", b"y")).await;
    store.close().await.unwrap();
}
