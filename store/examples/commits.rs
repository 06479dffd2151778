//! How many commits a second the embedded store acknowledges, and how many syncs that takes, at several widths.
//!
//! Run with `cargo run --release -p store --example commits [folder]`; the folder must be on a real disk.

use std::{error::Error, path::PathBuf, sync::Arc, time::Duration};
use store::{
    Commit, Embedded, Entry, ExecutionId, Options, Record, Revision, Sequence, Store, Timestamp, Write,
};

const SPAN: Duration = Duration::from_secs(3);

fn record(n: u64, body: usize) -> Record {
    Record {
        id: ExecutionId::new(Timestamp(n), [1; 10]),
        revision: Revision(0),
        workflow: "onboarding".into(),
        schema: 1,
        tenant: "acme".into(),
        subject: format!("tenant/t-{n}"),
        guard: None,
        state: "Reviewing".into(),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "ada".into(),
        created_at: Timestamp(n),
        updated_at: Timestamp(n),
        body: vec![b'x'; body],
    }
}

fn step(n: u64, revision: u64) -> Commit {
    let expected = (revision > 0).then_some(Revision(revision));
    let entry = Entry {
        sequence: Sequence(0),
        execution: ExecutionId::new(Timestamp(n), [1; 10]),
        at: Timestamp(revision),
        actor: "engine".into(),
        event: "settled".into(),
        from: "Reviewing".into(),
        to: "Carving".into(),
        detail: Vec::new(),
    };
    Commit {
        record: Some(Write { record: record(n, 300), expected }),
        journal: vec![entry],
        ..Commit::default()
    }
}

async fn measure(store: &Arc<Embedded>, width: u64, base: u64) -> Result<(), Box<dyn Error>> {
    let before = store.health().await;
    let end = tokio::time::Instant::now() + SPAN;
    let mut workers = Vec::new();
    for worker in 0..width {
        let store = store.clone();
        workers.push(tokio::spawn(async move {
            let mut revision = 0;
            while tokio::time::Instant::now() < end {
                store.commit(step(base + worker, revision)).await?;
                revision += 1;
            }
            Ok::<(), store::Error>(())
        }));
    }
    for worker in workers {
        worker.await??;
    }
    let after = store.health().await;
    let (commits, syncs) = (after.commits - before.commits, after.syncs - before.syncs);
    let written = after.written_bytes - before.written_bytes;
    println!(
        "{width:>5} at once: {:>8} commits/s, {:>6} syncs/s, {:>6.1} commits per sync, {:>5} bytes per commit, lag {}",
        commits / SPAN.as_secs(),
        syncs / SPAN.as_secs(),
        commits as f64 / syncs.max(1) as f64,
        written / commits.max(1),
        after.index_lag,
    );
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let parent = std::env::args().nth(1).map_or_else(|| PathBuf::from("target"), PathBuf::from);
    let folder = parent.join(format!("commits-{}", std::process::id()));
    let opened = Embedded::open(&folder, Options::default())?;
    println!("{}", opened.report);
    let store = Arc::new(opened.store);
    for (base, width) in [(1, 1), (10_000, 16), (20_000, 128), (30_000, 1024)] {
        measure(&store, width, base).await?;
    }
    store.close().await?;
    drop(store);
    let again = Embedded::open(&folder, Options::default())?;
    println!("{}", again.report);
    again.store.close().await?;
    std::fs::remove_dir_all(folder)?;
    Ok(())
}
