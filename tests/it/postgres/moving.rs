//! From the embedded store into a database, and back.

use super::{opened, options};
use std::{fs::File, path::Path, sync::Arc, time::Duration};
use store::{
    Commit, Embedded, Entry, Error, ExecutionId, Filter, Options, Record, Store, Task, TaskId, Timestamp,
    conformance::Differential,
    postgres::{Postgres, PostgresOptions},
    transfer::{self, Source},
};
use tests::servers::postgres::schema;

fn embedded(dir: &Path) -> Arc<Embedded> {
    Arc::new(Embedded::open(dir, Options::default()).unwrap().store)
}

/// Reads everything in every way: records, histories, work, and the whole history in order.
async fn all(
    store: &dyn Store,
) -> (Vec<Record>, Vec<Vec<Entry>>, Vec<Task>, Vec<(u32, Entry)>, Vec<store::Document>) {
    let records = store.list(&Filter::default(), None, 100_000).await.unwrap().items;
    let (mut journals, mut tasks) = (Vec::new(), Vec::new());
    for record in &records {
        journals.push(store.journal(record.id, None, 100_000).await.unwrap().items);
        tasks.extend(store.tasks(record.id).await.unwrap());
    }
    let history = store.history(None, 1_000_000).await.unwrap().items;
    let documents = store.documents("nodes", "", None, 1_000_000).await.unwrap().items;
    (records, journals, tasks, history, documents)
}

/// Returns the deliveries of a task, from the store that has it now.
async fn delivered(store: &dyn Store, id: TaskId) -> (u32, u64) {
    let leases = store.lease("w", Timestamp(u64::MAX / 4), Duration::from_millis(1), 1_000).await.unwrap();
    let lease = leases.iter().find(|lease| lease.task.id == id).unwrap();
    (lease.deliveries, lease.epoch.0)
}

/// Versions, revisions and sequences are preserved, so earlier reads stay valid.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_moves_into_a_database_and_back_is_unchanged() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (first, second) = (embedded(&dir.path().join("a")), dir.path().join("b"));
    let mut twins = Differential::new(vec![first.clone()], 5);
    for _ in 0..200 {
        twins.sequence(6).await.unwrap();
    }
    let waiting = TaskId { execution: ExecutionId::new(Timestamp(5), [9; 10]), visit: 1, slot: 0 };
    let schedule = vec![Task { id: waiting, due: Timestamp(7), body: b"{}".to_vec() }];
    first.commit(Commit { schedule, ..Commit::default() }).await.unwrap();
    let (once, epoch) = delivered(&*first, waiting).await;
    assert_eq!(once, 1);
    let before = all(&*first).await;
    let (out, back) = (dir.path().join("out.jsonl"), dir.path().join("back.jsonl"));
    let counts = transfer::export(&first, File::create(&out).unwrap(), Source::Replaced).await.unwrap();
    first.close().await.unwrap();
    assert_eq!(transfer::verify(File::open(&out).unwrap()).unwrap(), counts);

    let postgres = opened(&options).await;
    assert_eq!(postgres.import(File::open(&out).unwrap()).await.unwrap(), counts);
    assert_eq!(all(&*postgres).await, before);
    let (twice, above) = delivered(&*postgres, waiting).await;
    assert_eq!(twice, 2, "the earlier delivery counts");
    assert!(above > epoch, "targets have seen {epoch}, and {above} is not above it");
    let again = postgres.import(File::open(&out).unwrap()).await;
    assert!(matches!(&again, Err(Error::Refused { why }) if why.contains("empty one")), "{again:?}");
    let sequence = postgres.health().await.sequence;
    assert_eq!(postgres.export(File::create(&back).unwrap(), Source::Replaced).await.unwrap(), counts);
    let next = postgres.commit(Commit { retire: vec![waiting], ..Commit::default() }).await.unwrap();
    assert_eq!(next.sequence.0, sequence.0 + 1, "it continues at its sequence");
    postgres.close().await.unwrap();

    assert_eq!(transfer::import(File::open(&back).unwrap(), &second).unwrap(), counts);
    let second = embedded(&second);
    assert_eq!(all(&*second).await, before);
    second.close().await.unwrap();
}

/// All of it, or nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_or_changed_export_leaves_the_database_empty() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();
    let store = embedded(&dir.path().join("a"));
    let mut twins = Differential::new(vec![store.clone()], 6);
    for _ in 0..400 {
        twins.sequence(6).await.unwrap();
    }
    let file = dir.path().join("out.jsonl");
    transfer::export(&store, File::create(&file).unwrap(), Source::KeepsRunning).await.unwrap();
    store.close().await.unwrap();
    let whole = std::fs::read(&file).unwrap();
    let mut changed = whole.clone();
    let place = changed.len() * 3 / 4;
    changed[place] ^= 1;
    let cut = whole[..whole.len() - 10].to_vec();

    for wrong in [changed, cut] {
        let own = PostgresOptions { schema: schema(), ..options.clone() };
        let postgres: Arc<Postgres> = opened(&own).await;
        let refused = postgres.import(&wrong[..]).await;
        assert!(matches!(&refused, Err(Error::Refused { why }) if why.contains("line")), "{refused:?}");
        assert!(all(&*postgres).await.0.is_empty());
        assert_eq!(postgres.health().await.sequence.0, 0);
        postgres.import(&whole[..]).await.unwrap();
        postgres.close().await.unwrap();
    }
}
