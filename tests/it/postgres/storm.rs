//! Many simultaneous submits of one tenant on a database; and writes during a backup.

use super::{opened, options, served::start};
use crate::{
    served::{NODES, seen, shared},
    storm::all_are_decided,
};
use std::{
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use store::{Commit, Document, Entry, ExecutionId, Key, Put, Sequence, Store as _, Timestamp};
use tests::servers::postgres::{Cluster, installed};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_submissions_of_one_tenant_to_two_servers_are_all_decided() {
    let Some(options) = options() else { return };
    let one = start(&options, "one", &[]);
    one.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let id = one.onboard(&shared("acme")).await;
    assert_eq!(one.ended(&id).await["reason"], "completed");
    seen(&one, "acme").await;
    // Each server has its own world: an onboarding creates its objects in one of them.
    let mut two = start(&options, "two", &[]);
    two.admin.clone_from(&one.admin);

    all_are_decided(&[&one, &two], 100).await;
}

/// A session that holds the lock of statement `lock` until it is dropped.
struct Session {
    name: String,
    client: Child,
}

impl Session {
    fn holding(schema: &str, lock: &str) -> Self {
        let port = cluster().port().to_string();
        let sql = format!("SET search_path = {schema}; BEGIN; {lock}; SELECT pg_sleep(600)");
        let name = format!("holds {schema}");
        let mut command = Command::new("psql");
        command.args(["-qAtX", "-h", "127.0.0.1", "-p", &port, "-U", "tenure", "-d", "postgres", "-c", &sql]);
        command.env("PGAPPNAME", &name).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let session = Self { name, client: command.spawn().unwrap() };
        let sleeps = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{}' AND wait_event = 'PgSleep'",
            session.name
        );
        for _ in 0..200 {
            if cluster().sql(&sleeps).unwrap() == "1" {
                return session;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the lock was not taken")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // The server notices the end of a client only when it writes to it.
        let end = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name";
        _ = cluster().sql(&format!("{end} = '{}'", self.name));
        _ = self.client.kill();
        _ = self.client.wait();
    }
}

fn cluster() -> &'static Cluster {
    Cluster::shared(installed().unwrap()).unwrap()
}

fn said(n: u64) -> Commit {
    let entry = Entry {
        sequence: Sequence(0),
        execution: ExecutionId::new(Timestamp(n), [1; 10]),
        at: Timestamp(1),
        actor: "ada".into(),
        event: "said".into(),
        from: String::new(),
        to: String::new(),
        detail: Vec::new(),
    };
    Commit { journal: vec![entry], ..Commit::default() }
}

/// Holds the locks of `pg_dump` and of Tenure's export on every table, while the history gets a new part.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_blocks_no_write_at_the_end_of_a_part_of_the_history() {
    let Some(options) = options() else { return };
    let store = opened(&options).await;
    store.commit(said(1)).await.unwrap();
    let backup = Session::holding(&options.schema, "LOCK TABLE journal IN ACCESS SHARE MODE");

    for end in [4_999_998, 9_999_998, 19_999_998, 29_999_998, 39_999_998] {
        cluster().sql(&format!("UPDATE {}.head SET sequence = {end}", options.schema)).unwrap();
        for n in 0..4 {
            let started = Instant::now();
            store.commit(said(end + n)).await.unwrap();
            // The backup takes longer than any statement timeout.
            assert!(started.elapsed() < Duration::from_secs(10), "a write waited for the backup at {end}");
        }
    }

    drop(backup);
    assert_eq!(store.history(None, 100).await.unwrap().items.len(), 21);
    store.close().await.unwrap();
}

/// The row that every commit locks is held for longer than a statement may take. The commit is made all the same, or the store is
/// reported as unavailable; the request is never reported as wrong.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_delayed_by_the_database_succeeds_or_is_unavailable() {
    let Some(options) = options() else { return };
    let (statement, patience) = (Duration::from_millis(600), Duration::from_secs(4));
    let store = opened(&store::postgres::PostgresOptions {
        statement_timeout: statement,
        retry_timeout: patience,
        ..options.clone()
    })
    .await;
    let put = |n: u64| {
        let put = Put { key: Key::new("things", n.to_string()), body: Some(b"{}".to_vec()) };
        Commit { documents: vec![put], ..Commit::default() }
    };

    let stalled = Session::holding(&options.schema, "SELECT FROM head FOR UPDATE");
    let (late, ()) = tokio::join!(store.commit(put(1)), async {
        tokio::time::sleep(Duration::from_millis(1_500)).await;
        drop(stalled);
    });
    late.unwrap();
    let found: Option<Document> = store.document(&Key::new("things", "1")).await.unwrap();
    assert!(found.is_some());

    let stalled = Session::holding(&options.schema, "SELECT FROM head FOR UPDATE");
    let never = store.commit(put(2)).await.unwrap_err();
    drop(stalled);
    assert!(matches!(never, store::Error::Unavailable { .. }), "{never}");
    store.close().await.ok();
}
