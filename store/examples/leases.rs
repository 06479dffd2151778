//! What it costs that tenants take turns: the time of a lease among many tasks, of one tenant and of many.
//!
//! `cargo run --release -p store --example leases`

use std::time::{Duration, Instant};
use store::{
    Commit, Embedded, ExecutionId, Options, Record, Revision, Store as _, Task, TaskId, Timestamp, Write,
};

const EXECUTIONS: u64 = 2_000;
const TASKS_EACH: u32 = 50;
const LEASES: usize = 20_000;
const BATCH: usize = 64;

fn started(n: u64, tenants: u64) -> Commit {
    let id = ExecutionId::new(Timestamp(n), [1; 10]);
    let record = Record {
        id,
        revision: Revision(0),
        workflow: "leases".into(),
        schema: 1,
        tenant: format!("t-{}", n % tenants),
        subject: format!("s-{n}"),
        guard: None,
        state: "S".into(),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "nobody".into(),
        created_at: Timestamp(n),
        updated_at: Timestamp(n),
        attributes: Default::default(),
        body: vec![b'x'; 400],
    };
    let task = |slot| Task { id: TaskId { execution: id, visit: 1, slot }, due: Timestamp(n), body: vec![] };
    Commit {
        record: Some(Write { record, expected: None }),
        schedule: (0..TASKS_EACH).map(task).collect(),
        ..Commit::default()
    }
}

#[tokio::main]
#[expect(clippy::disallowed_methods, reason = "this measures")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("{} tasks due, {LEASES} leases", EXECUTIONS * u64::from(TASKS_EACH));
    for tenants in [1, 10, 100, 1_000] {
        let folder = tempfile::tempdir()?;
        let store = Embedded::open(folder.path(), Options::default())?.store;
        for n in 0..EXECUTIONS {
            store.commit(started(n, tenants)).await?;
        }
        let lease = async |limit| store.lease("me", Timestamp(1 << 40), Duration::from_secs(60), limit).await;
        let begun = Instant::now();
        for _ in 0..LEASES / 2 {
            lease(1).await?;
        }
        let alone = begun.elapsed() / u32::try_from(LEASES / 2)?;
        let begun = Instant::now();
        for _ in 0..LEASES / 2 / BATCH {
            lease(BATCH).await?;
        }
        let together = begun.elapsed() / u32::try_from(LEASES / 2 / BATCH * BATCH)?;
        println!("{tenants:>5} tenants: {alone:?} a lease alone, {together:?} in batches of {BATCH}");
        store.close().await?;
    }
    Ok(())
}
