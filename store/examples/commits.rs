//! How many commits a second the embedded store acknowledges, and how many syncs that takes, at several widths.
//!
//! Run with `cargo run --release -p store --example commits [folder]`; the folder must be on a real disk. First come
//! the yardsticks of ADR 0002: what the device takes at best, and what sled alone makes of the same rows.

use std::{
    error::Error,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
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
        attributes: Default::default(),
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

/// One writer, 600 bytes each time into a file of zeros, and a sync.
fn bare(folder: &Path) -> Result<(), Box<dyn Error>> {
    const BYTES: usize = 16 << 20;
    let path = folder.with_extension("bare");
    fs::write(&path, vec![0; BYTES])?;
    let file = File::options().write(true).open(&path)?;
    file.sync_all()?;
    let (end, mut count) = (tokio::time::Instant::now() + SPAN, 0);
    while tokio::time::Instant::now() < end {
        file.write_all_at(&[1; 600], count * 600 % (BYTES as u64 - 600))?;
        file.sync_data()?;
        count += 1;
    }
    println!("bare file, zeros ahead: {:>8} appends and syncs/s", count / SPAN.as_secs());
    fs::remove_file(path)?;
    Ok(())
}

/// One writer, two rows of 300 bytes, and sled's own flush; with and without a real sync behind it.
fn sled_alone(folder: &Path, sync: bool) -> Result<(), Box<dyn Error>> {
    let path = folder.with_extension("sled");
    let db = sled::Config::default().path(&path).cache_capacity(64 << 20).flush_every_ms(None).open()?;
    let file = File::open(path.join("db"))?;
    let (end, mut count) = (tokio::time::Instant::now() + SPAN, 0_u64);
    while tokio::time::Instant::now() < end {
        let mut batch = sled::Batch::default();
        batch.insert(b"record", [1_u8; 300].as_slice());
        batch.insert(&count.to_be_bytes()[..], [1_u8; 300].as_slice());
        db.apply_batch(batch)?;
        db.flush()?;
        if sync {
            file.sync_data()?;
        }
        count += 1;
    }
    let what = if sync { "flush and fdatasync" } else { "flush, which syncs nothing" };
    let per = db.size_on_disk()? / count.max(1);
    println!("sled, one batch, {what}: {:>8} batches/s, {per} bytes on disk each", count / SPAN.as_secs());
    drop((db, file));
    fs::remove_dir_all(path)?;
    Ok(())
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
    bare(&folder)?;
    sled_alone(&folder, false)?;
    sled_alone(&folder, true)?;
    let opened = Embedded::open(&folder, Options::default())?;
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
