//! A crash between any two batches with which the index applies commits.

use crate::{
    Commit, Embedded, Memory, Options, Query, Record, Revision, Store, Timestamp, Write, tests::fixture::*,
};
use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, atomic::Ordering},
    time::Duration,
};
use xxhash_rust::xxh3::xxh3_64;

/// The number of records and the size of their terms: one merge has several slices, and each slice several batches.
const RECORDS: u64 = 240;
const PARTS: u64 = 11;
const FIELDS: [&str; 8] = ["one", "two", "three", "four", "five", "six", "seven", "eight"];

/// Returns the search values of record `n` in its `life`. Values that cannot be packed, or a merge would be one
/// batch.
fn value(n: u64, life: u64, field: &str) -> String {
    let part = |at: u64| format!("{:016x}", xxh3_64(format!("{n} {life} {field} {at}").as_bytes()));
    (0..PARTS).map(part).collect()
}

/// Returns the record `n` in its `life`: its values differ in each life, and its body is sometimes long.
fn living(n: u64, life: u64) -> Record {
    let mut record = record(n);
    record.state = format!("state-{life}");
    record.updated_at = Timestamp(life * 3_600_000);
    for field in FIELDS {
        record.attributes.insert(field.into(), [value(n, life, field)].into());
    }
    if n % 40 == life {
        record.body = vec![b'0' + life as u8; 150 << 10];
    }
    record
}

/// Writes all records that `is_one` selects, in their `life`.
async fn live(stores: [&dyn Store; 2], life: u64, is_one: impl Fn(u64) -> bool) {
    for n in (1..=RECORDS).filter(|n| is_one(*n)) {
        for store in stores {
            let expected = store.load(id(n)).await.unwrap().map(|record| record.revision);
            let record = Record { revision: Revision(0), ..living(n, life) };
            let write = Write { record, expected };
            store.commit(Commit { record: Some(write), ..Commit::default() }).await.unwrap();
        }
    }
}

async fn taken_over(store: &Embedded) {
    while store.health().await.index_lag > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns the answers of searches for every value that a record ever had, and every record with its body.
async fn answers(store: &dyn Store) -> Vec<(String, Vec<Record>)> {
    let mut answers = Vec::new();
    let mut ask = async |field: &str, value: String| {
        let found = store.search(&Query::is(field, &value), None, 10_000).await.unwrap();
        answers.push((format!("{field}={}", &value[..value.len().min(12)]), found.items));
    };
    for life in 0..4 {
        ask("state", format!("state-{life}")).await;
        for n in 1..=RECORDS {
            let field = FIELDS[(n % 8) as usize];
            ask(field, value(n, life, field)).await;
        }
    }
    answers.push(("all".into(), store.search(&Query::All, None, 10_000).await.unwrap().items));
    answers
}

/// Copies the index of `dir` to a new place at each batch, from now on.
fn copied_at_each_batch(dir: &Path, to: &Path, options: &Options) -> Arc<Mutex<Vec<PathBuf>>> {
    let copies = Arc::new(Mutex::new(Vec::new()));
    let (dir, to, seen) = (dir.to_owned(), to.to_owned(), copies.clone());
    options.faults.after_batch.set(move || {
        let mut seen = seen.lock().unwrap();
        let place = to.join(format!("{}", seen.len()));
        copy_part(&dir, &place, "index");
        seen.push(place);
    });
    copies
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_crash_between_two_batches_no_search_misses_a_record() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("live");
    let options = Options { watchdog: Duration::from_secs(600), ..unhurried() };
    let (store, memory) = (open(&dir, options.clone()).0, Memory::new());
    let both: [&dyn Store; 2] = [&store, &memory];
    live(both, 0, |_| true).await;
    taken_over(&store).await;
    // One merge of all of these is interrupted; the later commits are only in the journal: unchanged, changed, or the
    // same as merged.
    options.faults.stall_index.store(true, Ordering::Relaxed);
    live(both, 1, |_| true).await;
    let copies = copied_at_each_batch(&dir, folder.path(), &options);
    options.faults.stall_index.store(false, Ordering::Relaxed);
    taken_over(&store).await;
    options.faults.after_batch.set(|| ());
    options.faults.stall_index.store(true, Ordering::Relaxed);
    live(both, 0, |n| n % 3 == 0).await;
    live(both, 2, |n| n % 3 == 1).await;
    let expected = answers(&memory).await;
    let copies = std::mem::take(&mut *copies.lock().unwrap());
    assert!(copies.len() > 8, "{} batches are no merge worth cutting", copies.len());
    let mut behind = Vec::new();
    for place in &copies {
        for part in ["HEAD", "deliveries.log", "snapshot", "journal"] {
            copy_part(&dir, place, part);
        }
        let (cut, report) = open(place, unhurried());
        assert_eq!(report.rebuilt_index, None, "this test needs the index as it was");
        behind.push(report.replayed);
        taken_over(&cut).await;
        for ((asked, found), (_, all)) in answers(&cut).await.into_iter().zip(&expected) {
            let (found, all) = (revisions(&found), revisions(all));
            assert_eq!(found, all, "{asked}, cut at {} of {}", place.display(), copies.len());
        }
        cut.close().await.unwrap();
    }
    assert!(behind.iter().any(|n| *n > RECORDS), "no copy is of the middle of the merge: {behind:?}");
    options.faults.stall_index.store(false, Ordering::Relaxed);
    store.close().await.unwrap();
}

/// A short form of records, for messages.
fn revisions(records: &[Record]) -> Vec<(u64, u64, usize)> {
    records.iter().map(|record| (record.created_at.0, record.revision.0, record.body.len())).collect()
}
