use super::{INLINE_LIMIT, PAGED_LIMIT, PAGES, paged};
use crate::{
    Commit, Erase, Error, ExecutionId, Filter, Key, Memory, Put, Read, Record, Revision, Sequence, Store,
    Timestamp, Write, conformance,
    encrypted::{Encrypted, KeyFolder, Secret},
};
use std::sync::Arc;

/// The longest allowed row, in bytes.
const ROW: usize = 64 << 10;

fn body(entries: usize, changed: usize) -> Vec<u8> {
    let fate = |n| if n == changed { "\"done\",\"output\":{\"serial\":\"abc\"}" } else { "\"begun\"" };
    let entry =
        |n: usize| format!("{{\"node\":\"site-a-rack-{n:06}\",\"fate\":{},\"n\":{}}}", fate(n), n * 7919);
    format!("[{}]", (0..entries).map(entry).collect::<Vec<_>>().join(",")).into_bytes()
}

fn id() -> ExecutionId {
    ExecutionId::new(Timestamp(1), [7; 10])
}

fn record(body: Vec<u8>, open: bool) -> Record {
    Record {
        id: id(),
        revision: Revision(0),
        workflow: "onboarding".into(),
        schema: 1,
        tenant: "acme".into(),
        subject: "tenant/acme".into(),
        guard: None,
        state: "Claiming".into(),
        phase: "forward".into(),
        reason: None,
        open,
        requested_by: "ada".into(),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
        attributes: crate::Attributes::new(),
        body,
    }
}

fn write(record: Record, expected: Option<Revision>) -> Commit {
    Commit { record: Some(Write { record, expected }), ..Commit::default() }
}

fn put(id: &str, body: Option<Vec<u8>>) -> Commit {
    Commit { documents: vec![Put { key: key(id), body }], ..Commit::default() }
}

fn key(id: &str) -> Key {
    Key::new("rosters", id)
}

/// The rows of pages, by id.
async fn rows(store: &dyn Store) -> Vec<(String, Vec<u8>)> {
    let found = store.documents(PAGES, "", None, 100_000).await.unwrap();
    found.items.into_iter().map(|row| (row.key.id, row.body)).collect()
}

#[tokio::test]
async fn a_large_record_is_read_unchanged_and_no_row_is_larger_than_64_kib() {
    let raw = Arc::new(Memory::new());
    let store = paged(raw.clone());
    let mut expected = None;
    for changed in [0, 5, 3_999, 17] {
        let wanted = body(4_000, changed);
        let before = rows(&*raw).await;
        expected = store.commit(write(record(wanted.clone(), true), expected)).await.unwrap().revision;

        let other = paged(raw.clone());
        for reader in [&store, &other] {
            assert!(reader.load(id()).await.unwrap().unwrap().body == wanted);
            let listed = reader.list(&Filter::default(), None, 10).await.unwrap().items;
            assert!(listed[0].body == wanted);
        }
        let after = rows(&*raw).await;
        assert!(after.iter().all(|(_, row)| row.len() < ROW));
        assert!(raw.load(id()).await.unwrap().unwrap().body.len() < ROW);
        let written = after.iter().filter(|row| !before.contains(row)).count();
        assert!(before.is_empty() || written <= 4, "{written} of {} pages", after.len());
    }
}

#[tokio::test]
async fn unused_pages_are_removed_by_a_write_or_removal_of_their_owner() {
    let raw = Arc::new(Memory::new());
    let writers = [paged(raw.clone()), paged(raw.clone())];

    for (turn, entries) in [2_000, 900, 1, 3_000, 20].into_iter().enumerate() {
        let wanted = body(entries, 0);
        writers[turn % 2].commit(put("a", Some(wanted.clone()))).await.unwrap();
        let head = raw.document(&key("a")).await.unwrap().unwrap().body;
        let found = writers[0].document(&key("a")).await.unwrap().unwrap().body;
        assert!(found == wanted);
        let head: serde_json::Value = serde_json::from_slice(&head).unwrap();
        let named = head.pointer("/$paged/pages").and_then(serde_json::Value::as_array).map_or(0, Vec::len);
        assert_eq!(rows(&*raw).await.len(), named, "turn {turn}");
    }

    writers[0].commit(put("a", Some(body(4_000, 0)))).await.unwrap();
    writers[1].commit(put("a", None)).await.unwrap();
    assert!(rows(&*raw).await.is_empty() && writers[0].document(&key("a")).await.unwrap().is_none());
}

#[tokio::test]
async fn an_erased_execution_takes_its_pages_with_it() {
    let raw = Arc::new(Memory::new());
    let store = paged(raw.clone());
    let revision = store.commit(write(record(body(4_000, 0), false), None)).await.unwrap().revision.unwrap();
    assert!(!rows(&*raw).await.is_empty());

    let erase = Erase { execution: id(), expected: revision, upto: Sequence(9), entries: 10 };
    let erased = store.commit(Commit { erase: Some(erase), ..Commit::default() }).await.unwrap().erased;

    assert!(erased && rows(&*raw).await.is_empty());
}

#[tokio::test]
async fn a_commit_with_a_stale_condition_changes_neither_the_body_nor_its_pages() {
    let raw = Arc::new(Memory::new());
    let store = paged(raw.clone());
    store.commit(write(record(body(4_000, 0), true), None)).await.unwrap();
    store.commit(write(record(body(4_000, 1), true), Some(Revision(1)))).await.unwrap();
    let before = rows(&*raw).await;

    let late = store.commit(write(record(body(4_000, 2), true), Some(Revision(1)))).await;
    let read = Read { key: key("none"), version: Some(Sequence(1)) };
    let other = store.commit(Commit { reads: vec![read], ..put("b", Some(body(2_000, 0))) }).await;

    assert!(matches!(late, Err(Error::Conflict { .. })) && matches!(other, Err(Error::Conflict { .. })));
    assert!(rows(&*raw).await == before);
    assert!(store.load(id()).await.unwrap().unwrap().body == body(4_000, 1));
}

#[tokio::test]
async fn an_unpaged_body_of_an_earlier_version_is_read_and_paged_with_its_next_write() {
    let raw = Arc::new(Memory::new());
    let (old, new) = (vec![b'x'; 200 << 10], body(4_000, 0));
    raw.commit(write(record(old.clone(), true), None)).await.unwrap();
    let store = paged(raw.clone());

    assert!(store.load(id()).await.unwrap().unwrap().body == old);
    store.commit(write(record(new.clone(), true), Some(Revision(1)))).await.unwrap();

    assert!(store.load(id()).await.unwrap().unwrap().body == new);
    assert!(raw.load(id()).await.unwrap().unwrap().body.len() < ROW);
}

#[tokio::test]
async fn pages_of_a_record_are_encrypted_with_the_key_of_its_tenant() {
    let folder = tempfile::tempdir().unwrap();
    let wrapping = Secret::from_hex(&"ab".repeat(32)).unwrap();
    let keys = Arc::new(KeyFolder::open(folder.path(), wrapping, &[], false).unwrap());
    let raw = Arc::new(Memory::new());
    let store = paged(Arc::new(Encrypted::new(raw.clone(), keys.clone(), [])));
    let wanted = body(4_000, 0);
    store.commit(write(record(wanted.clone(), false), None)).await.unwrap();
    assert!(store.load(id()).await.unwrap().unwrap().body == wanted);
    let leaks = |row: &[u8]| row.windows(12).any(|part| part == b"site-a-rack-");
    assert!(rows(&*raw).await.iter().all(|(_, row)| row.len() < ROW && !leaks(row)));

    keys.destroy("acme", Timestamp(5)).unwrap();
    let other = paged(Arc::new(Encrypted::new(raw.clone(), keys, [])));
    let closed = other.load(id()).await.unwrap().unwrap().body;
    let erase = Erase { execution: id(), expected: Revision(1), upto: Sequence(9), entries: 10 };
    other.commit(Commit { erase: Some(erase), ..Commit::default() }).await.unwrap();

    assert!(crate::encrypted::Undecryptable::from_body(&closed).is_some());
    assert!(rows(&*raw).await.is_empty());
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused_and_a_small_one_is_stored_unpaged() {
    let raw = Arc::new(Memory::new());
    let store = paged(raw.clone());

    let refused = store.commit(put("a", Some(vec![b'x'; PAGED_LIMIT + 1]))).await;
    store.commit(put("a", Some(vec![b'x'; INLINE_LIMIT]))).await.unwrap();

    assert!(matches!(refused, Err(Error::TooLarge { .. })));
    assert!(rows(&*raw).await.is_empty());
    assert_eq!(raw.document(&key("a")).await.unwrap().unwrap().body.len(), INLINE_LIMIT);
}

#[tokio::test]
async fn a_paged_store_passes_conformance_except_for_the_limit_of_a_body() {
    let broken =
        conformance::run(|| async { paged(Arc::new(Memory::new())) }).await.err().unwrap_or_default();

    let other: Vec<_> = broken.iter().filter(|broken| !broken.case.contains("limit")).collect();
    assert!(other.is_empty(), "{other:?}");
}
