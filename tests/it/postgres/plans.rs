//! The database's plans for commits.

use super::{opened, options};
use std::time::Duration;
use store::{
    Commit, Epoch, ExecutionId, Record, Revision, Settle, Store, Task, TaskId, Timestamp, Write,
    postgres::PostgresOptions,
};
use tests::servers::postgres::{Cluster, installed};

const HOLDER: &str = "somebody";

fn id(n: u64) -> ExecutionId {
    ExecutionId::new(Timestamp(n), [9; 10])
}

fn record(n: u64, state: u64) -> Record {
    Record {
        id: id(n),
        revision: Revision(0),
        workflow: "walking".into(),
        schema: 1,
        tenant: "acme".into(),
        subject: format!("walk/{n}"),
        guard: Some(format!("walk/{n}")),
        state: format!("S{state}"),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "ada".into(),
        created_at: Timestamp(n),
        updated_at: Timestamp(state),
        attributes: store::Attributes::new(),
        body: b"{}".to_vec(),
    }
}

fn task(n: u64, visit: u32) -> Task {
    let id = TaskId { execution: id(n), visit, slot: 0 };
    Task { id, due: Timestamp(1), body: Vec::new() }
}

/// Executes `steps` steps of four executions from `n` on. Each step is leased and completed.
async fn walk(options: &PostgresOptions, from: u64, steps: u32) {
    let store = opened(options).await;
    for n in from..from + 4 {
        let mut expected = None;
        let mut settle = None;
        for visit in 0..steps {
            let write = Write { record: record(n, u64::from(visit)), expected };
            let schedule = vec![task(n, visit)];
            let commit = Commit { record: Some(write), schedule, settle, ..Commit::default() };
            expected = store.commit(commit).await.unwrap().revision;
            let lease =
                store.lease(HOLDER, Timestamp(5), Duration::from_secs(60), 1).await.unwrap().remove(0);
            let epoch: Epoch = lease.epoch;
            settle = Some(Settle { task: lease.task.id, epoch });
        }
        let end = Commit { settle, ..Commit::default() };
        store.commit(end).await.unwrap();
    }
    store.close().await.unwrap();
}

/// Between two vacuums a task table has few rows and thousands of pages of dead rows. A sequential scan in each commit, as the planner
/// chooses for a table it believes to be small, becomes slower with each.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_commit_and_no_lease_reads_a_whole_table() {
    let Some(options) = options() else { return };
    let whole = || {
        let cluster = Cluster::shared(installed().unwrap()).unwrap();
        let sql = format!(
            "SELECT sum(seq_scan) FROM pg_stat_user_tables WHERE schemaname = '{}' AND relname IN ('tasks', 'standing', 'executions')",
            options.schema
        );
        cluster.sql(&sql).unwrap().parse::<u64>().unwrap()
    };
    walk(&options, 1, 5).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let before = whole();
    walk(&options, 10, 60).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let reads = whole() - before;
    // Opening a store and looking for a backlog may scan tables a few times.
    assert!(reads < 20, "240 steps read whole tables {reads} times");
}
