//! A restored or changed database is held.

use super::{opened, options};
use std::{fs::File, process::Command, time::Duration};
use store::{
    Commit, Error, ExecutionId, Hold, Key, Put, Store, Task, TaskId, Timestamp,
    postgres::{Postgres, PostgresOptions},
    transfer::Source,
};
use tests::servers::postgres::{Cluster, installed, schema};

const TTL: Duration = Duration::from_millis(100);

fn cluster() -> &'static Cluster {
    Cluster::shared(installed().unwrap()).unwrap()
}

fn put(n: u64) -> Commit {
    let put = Put { key: Key::new("things", n.to_string()), body: Some(b"{}".to_vec()) };
    Commit { documents: vec![put], ..Commit::default() }
}

async fn with_a_task(options: &PostgresOptions) {
    let store = opened(options).await;
    let id = TaskId { execution: ExecutionId::new(Timestamp(5), [9; 10]), visit: 1, slot: 0 };
    let schedule = vec![Task { id, due: Timestamp(7), body: b"{}".to_vec() }];
    store.commit(Commit { schedule, ..Commit::default() }).await.unwrap();
    store.close().await.unwrap();
}

/// Returns how often the task was leased, after any hold was released.
async fn released(store: &Postgres) -> u32 {
    if let Some(hold) = store.current_hold().await.unwrap() {
        assert!(store.lease("w", Timestamp(100), TTL, 9).await.unwrap().is_empty());
        assert!(store.unhold(hold.since).await.unwrap());
    }
    let leases = store.lease("w", Timestamp(100), TTL, 9).await.unwrap();
    assert_eq!(leases.len(), 1);
    leases[0].deliveries
}

/// Restores with the usual tools, into another database and into the emptied original.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_restored_from_a_dump_is_held_and_the_original_is_not() {
    let Some(options) = options() else { return };
    with_a_task(&options).await;
    let dump = Command::new("pg_dump")
        .args([
            "-h",
            "127.0.0.1",
            "-p",
            &cluster().port().to_string(),
            "-U",
            "tenure",
            "-n",
            &options.schema,
            "postgres",
        ])
        .output();
    let Ok(dump) = dump else {
        println!("skipped: pg_dump is not installed");
        return;
    };
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), dump.stdout).unwrap();
    let restore = |database: &str| {
        let mut command = Command::new("psql");
        command.args([
            "-q",
            "-h",
            "127.0.0.1",
            "-p",
            &cluster().port().to_string(),
            "-U",
            "tenure",
            "-d",
            database,
        ]);
        let said = command.args(["-v", "ON_ERROR_STOP=1", "-f"]).arg(file.path()).output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    };
    let other = format!("other_{}", options.schema);
    cluster().sql(&format!("CREATE DATABASE {other}")).unwrap();
    restore(&other);

    let url = options.url.replace("/postgres?", &format!("/{other}?"));
    assert_ne!(url, options.url);
    let elsewhere = PostgresOptions { url, ..options.clone() };
    let restored = opened(&elsewhere).await;
    let hold = restored.current_hold().await.unwrap().unwrap();
    assert!(hold.why.contains("was created in another place"), "{hold:?}");
    assert_eq!(released(&restored).await, 2, "it may have been done before");
    restored.close().await.unwrap();
    let again = opened(&elsewhere).await;
    assert_eq!(again.current_hold().await.unwrap(), None, "the store is confirmed there");
    again.close().await.unwrap();

    let stayed = opened(&options).await;
    assert_eq!(stayed.current_hold().await.unwrap(), None);
    stayed.close().await.unwrap();
    cluster().sql(&format!("DROP SCHEMA {} CASCADE", options.schema)).unwrap();
    restore("postgres");
    let in_place = opened(&options).await;
    assert!(in_place.current_hold().await.unwrap().is_some());
    in_place.close().await.unwrap();
}

/// Like a fail-over that loses commits that this server never saw: the next commit detects it, and all processes are
/// notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_set_back_under_a_process_is_held_before_the_next_write() {
    let Some(options) = options() else { return };
    with_a_task(&options).await;
    let (store, other) = (opened(&options).await, opened(&options).await);
    for n in 0..3 {
        store.commit(put(n)).await.unwrap();
    }
    let back = format!(
        "SET search_path = {}; UPDATE head SET sequence = 2; DELETE FROM documents WHERE id <> '0'",
        options.schema
    );
    cluster().sql(&back).unwrap();

    let leases = store.lease("w", Timestamp(100), TTL, 9).await.unwrap();
    assert!(leases.is_empty(), "no task is leased before the notification: {leases:?}");
    assert!(other.current_hold().await.unwrap().is_some(), "a request for work finds the hold first");
    let since = other.current_hold().await.unwrap().unwrap().since;
    other.unhold(since).await.unwrap();
    cluster().sql(&back.replace("sequence = 2", "sequence = 1")).unwrap();

    let receipt = store.commit(put(9)).await.unwrap();

    assert_eq!(receipt.sequence.0, 2, "a consistent commit succeeds");
    let hold = other.current_hold().await.unwrap().unwrap();
    assert!(hold.why.contains("is at commit 1") && hold.why.contains("seen commit 2"), "{hold:?}");
    assert_eq!(released(&other).await, 2);
    store.commit(put(10)).await.unwrap();
    assert_eq!(other.current_hold().await.unwrap(), None, "one notification is enough");
    store.close().await.unwrap();
    other.close().await.unwrap();
}

/// A later start knows the commits that an earlier one saw; it knows nothing of another history.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_was_set_back_during_downtime_is_held_by_a_server_that_saw_more() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();
    let witness = Some(dir.path().join("seen"));
    let options = PostgresOptions { watermark_file: witness, ..options };
    with_a_task(&options).await;
    let store = opened(&options).await;
    assert_eq!(store.current_hold().await.unwrap(), None);
    store.commit(put(1)).await.unwrap();
    store.close().await.unwrap();
    let other = PostgresOptions { schema: schema(), ..options.clone() };
    let another = opened(&other).await;
    assert_eq!(another.current_hold().await.unwrap(), None, "another history may be shorter");
    another.close().await.unwrap();
    // The other history was the last one here.
    opened(&options).await.close().await.unwrap();
    cluster().sql(&format!("UPDATE {}.head SET sequence = 1", options.schema)).unwrap();

    let unseeing = opened(&PostgresOptions { watermark_file: None, ..options.clone() }).await;
    assert_eq!(
        unseeing.current_hold().await.unwrap(),
        None,
        "a process without earlier reads cannot detect it"
    );
    unseeing.close().await.unwrap();
    let store = opened(&options).await;
    let hold = store.current_hold().await.unwrap().unwrap();
    assert!(hold.why.contains("is at commit 1") && hold.why.contains("seen commit 2"), "{hold:?}");
    assert_eq!(released(&store).await, 2);
    store.close().await.unwrap();
}

/// Also without any commit.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_servers_notice_a_database_that_was_set_back() {
    let Some(options) = options() else { return };
    let idle = opened(&PostgresOptions { heartbeat: Duration::from_millis(50), ..options.clone() }).await;
    let busy = opened(&options).await;
    for n in 0..3 {
        busy.commit(put(n)).await.unwrap();
    }
    busy.close().await.unwrap();
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster().sql(&format!("UPDATE {}.head SET sequence = 1", options.schema)).unwrap();

    let noticed = async {
        while idle.current_hold().await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), noticed).await.unwrap();
    idle.close().await.unwrap();
}

/// Processes that wait for work are notified.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_hold_wakes_other_processes() {
    let Some(options) = options() else { return };
    let (one, two) = (opened(&options).await, opened(&options).await);
    one.hold(Hold { since: Timestamp(3), why: "a drill".into() }).await.unwrap();
    // Consume the initial notification.
    while tokio::time::timeout(Duration::from_millis(500), two.wait_for_changes()).await.is_ok() {}

    one.unhold(Timestamp(3)).await.unwrap();

    tokio::time::timeout(Duration::from_secs(10), two.wait_for_changes()).await.unwrap();
    one.close().await.unwrap();
    two.close().await.unwrap();
}

/// A store with active servers is not moved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_moves_only_when_its_servers_have_stopped() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (mover, server) =
        (opened(&options).await, opened(&PostgresOptions { name: "web-1".into(), ..options.clone() }).await);
    let file = || File::create(dir.path().join("out.jsonl")).unwrap();

    let refused = mover.export(file(), Source::Replaced).await;

    assert!(
        matches!(&refused, Err(Error::Refused { why }) if why.contains("at work") && why.contains("web-1/")),
        "{refused:?}"
    );
    assert_eq!(mover.current_hold().await.unwrap(), None);
    mover.export(file(), Source::KeepsRunning).await.unwrap();
    assert_eq!(mover.current_hold().await.unwrap(), None);
    server.close().await.unwrap();
    mover.export(file(), Source::Replaced).await.unwrap();
    let again = mover.export(file(), Source::Replaced).await;
    assert!(matches!(&again, Err(Error::Refused { why }) if why.contains("is held")), "{again:?}");
    assert!(mover.current_hold().await.unwrap().unwrap().why.contains("continue elsewhere"));
    mover.close().await.unwrap();
}
