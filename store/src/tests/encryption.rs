//! Encrypted bodies: readable only with the key, and never after its destruction.

use crate::{
    Commit, Entry, Error, ExecutionId, Filter, Key, Memory, Put, Record, Revision, Sequence, Store, Task,
    TaskId, Timestamp, Write, conformance,
    encrypted::{Encrypted, KeyFolder, Secret, Undecryptable, is_encrypted},
};
use std::{fs, path::Path, sync::Arc, time::Duration};

const WORDS: &[u8] = br#"{"words":"what nobody else may read"}"#;
const LEAVING: &str = "offboarding";

fn secret(digit: char) -> Secret {
    Secret::from_hex(&digit.to_string().repeat(64)).unwrap()
}

fn folder(dir: &Path) -> Arc<KeyFolder> {
    Arc::new(KeyFolder::open(dir, secret('a'), &[], false).unwrap())
}

fn sealed(inner: &Arc<Memory>, dir: &Path) -> Encrypted<Memory> {
    Encrypted::new(inner.clone(), folder(dir), [LEAVING])
}

fn id(n: u8) -> ExecutionId {
    ExecutionId::new(Timestamp(1), [n; 10])
}

/// An execution with a body, a history entry and a message, all with the same text.
fn about(n: u8, tenant: &str, workflow: &str) -> Commit {
    let record = Record {
        id: id(n),
        revision: Revision(0),
        workflow: workflow.into(),
        schema: 1,
        tenant: tenant.into(),
        subject: format!("tenant/{tenant}"),
        guard: None,
        state: "Working".into(),
        phase: "forward".into(),
        reason: None,
        open: true,
        requested_by: "ann".into(),
        created_at: Timestamp(1),
        updated_at: Timestamp(1),
        attributes: crate::Attributes::default(),
        body: WORDS.into(),
    };
    let entry = Entry {
        sequence: Sequence(0),
        execution: id(n),
        at: Timestamp(1),
        actor: "ann".into(),
        event: "started".into(),
        from: String::new(),
        to: "Working".into(),
        detail: WORDS.into(),
    };
    let task = TaskId { execution: id(n), visit: 1, slot: 0 };
    Commit {
        record: Some(Write { record, expected: None }),
        journal: vec![entry],
        schedule: vec![Task { id: task, due: Timestamp(1), body: WORDS.into() }],
        documents: vec![Put { key: Key::new("things", format!("{n}")), body: Some(WORDS.into()) }],
        ..Commit::default()
    }
}

/// Reads an execution: its body, the detail of its history, and the body of its task.
async fn bodies(store: &dyn Store, n: u8) -> [Vec<u8>; 3] {
    let record = store.load(id(n)).await.unwrap().unwrap();
    let entry = store.journal(id(n), None, 1).await.unwrap().items.remove(0);
    let task = store.tasks(id(n)).await.unwrap().remove(0);
    [record.body, entry.detail, task.body]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_encrypted_store_passes_conformance() {
    let dir = tempfile::tempdir().unwrap();

    let count = conformance::run(|| async {
        let store = sealed(&Arc::new(Memory::new()), dir.path());
        Arc::new(store) as Arc<dyn Store>
    })
    .await;

    assert!(count.clone().is_ok_and(|count| count > 30), "{count:#?}");
}

#[tokio::test]
async fn the_inner_store_contains_no_plain_body() {
    let (inner, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = sealed(&inner, dir.path());
    store.commit(about(1, "acme", "onboarding")).await.unwrap();
    store.commit(about(2, "acme", LEAVING)).await.unwrap();

    let document = Key::new("things", "1");
    let mut beneath = [bodies(&*inner, 1).await, bodies(&*inner, 2).await].concat();
    beneath.push(inner.document(&document).await.unwrap().unwrap().body);

    assert!(beneath.iter().all(|body| !body.windows(6).any(|part| part == b"nobody")), "{beneath:?}");
    assert_eq!(bodies(&store, 1).await, [WORDS; 3]);
    assert_eq!(bodies(&store, 2).await, [WORDS; 3]);
    assert_eq!(store.document(&document).await.unwrap().unwrap().body, WORDS);
    assert_eq!(store.list(&Filter::default(), None, 9).await.unwrap().items.remove(0).body, WORDS);
    let leased = store.lease("me", Timestamp(9), Duration::from_secs(1), 9).await.unwrap();
    assert_eq!(leased.iter().map(|lease| &lease.task.body[..]).collect::<Vec<_>>(), [WORDS; 2]);
    assert!(is_encrypted(&*inner).await.unwrap());
}

/// The tenant's executions become unreadable; the executions that offboarded it, other tenants and the platform's
/// documents stay.
#[tokio::test]
async fn without_its_key_a_tenants_content_is_reported_as_destroyed() {
    let (inner, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = sealed(&inner, dir.path());
    for (n, tenant, workflow) in [(1, "acme", "onboarding"), (2, "acme", LEAVING), (3, "bolt", "onboarding")]
    {
        store.commit(about(n, tenant, workflow)).await.unwrap();
    }

    let destroyed = store.keys().destroy("acme", Timestamp(7)).unwrap();

    for body in bodies(&store, 1).await {
        let said = Undecryptable::from_body(&body).unwrap();
        assert_eq!((said.owner.as_str(), said.destroyed_at), ("acme", Some(Timestamp(7))), "{said}");
        assert_eq!(said.key, destroyed[0].key);
    }
    let listed = store.list(&Filter::default(), None, 9).await.unwrap().items;
    assert_eq!(listed[0].tenant, "acme", "what it was is still known");
    assert_eq!(bodies(&store, 2).await, [WORDS; 3], "what led it out outlasts it");
    assert_eq!(bodies(&store, 3).await, [WORDS; 3]);
    assert!(store.document(&Key::new("things", "1")).await.unwrap().is_some());
    assert_eq!(store.keys().destroy("acme", Timestamp(8)).unwrap(), destroyed, "twice is once");
    assert!(!dir.path().join("acme.key").exists());
}

#[tokio::test]
async fn another_process_does_not_use_a_key_after_its_destruction() {
    let (inner, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let (here, there) = (sealed(&inner, dir.path()), sealed(&inner, dir.path()));
    here.commit(about(1, "acme", "onboarding")).await.unwrap();
    assert_eq!(bodies(&there, 1).await, [WORDS; 3], "a key that one made is the other's too");

    there.keys().destroy("acme", Timestamp(7)).unwrap();

    assert!(Undecryptable::from_body(&bodies(&here, 1).await[0]).is_some());
    here.commit(about(2, "acme", "onboarding")).await.unwrap();
    assert_eq!(bodies(&there, 2).await, [WORDS; 3], "later bodies have a new key");
    assert!(
        Undecryptable::from_body(&bodies(&there, 1).await[0]).is_some(),
        "a new key does not decrypt earlier bodies"
    );
}

/// Killed between recording the destruction and removing the key.
#[tokio::test]
async fn a_destruction_that_was_interrupted_counts_and_is_completed() {
    let (inner, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let file = dir.path().join("acme.key");
    let store = sealed(&inner, dir.path());
    store.commit(about(1, "acme", "onboarding")).await.unwrap();
    let key = fs::read(&file).unwrap();
    store.keys().destroy("acme", Timestamp(7)).unwrap();
    fs::write(&file, &key).unwrap();

    let store = sealed(&inner, dir.path());

    assert!(Undecryptable::from_body(&bodies(&store, 1).await[0]).is_some());
    store.commit(about(2, "acme", "onboarding")).await.unwrap();
    assert_ne!(fs::read(&file).unwrap(), key);
    assert_eq!(bodies(&store, 2).await, [WORDS; 3]);
}

#[tokio::test]
async fn a_body_cannot_be_exchanged_for_another() {
    let (inner, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    let store = sealed(&inner, dir.path());
    store.commit(about(1, "acme", "onboarding")).await.unwrap();
    let stolen = inner.load(id(1)).await.unwrap().unwrap().body;
    let mut forged = about(2, "acme", "onboarding");
    forged.record.as_mut().unwrap().record.body = stolen;
    inner.commit(forged).await.unwrap();

    let said = Undecryptable::from_body(&store.load(id(2)).await.unwrap().unwrap().body).unwrap();

    assert_eq!(said.destroyed_at, None, "this is an error, not a destruction");
}

#[tokio::test]
async fn bodies_written_before_encryption_can_be_read() {
    let (inner, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    inner.commit(about(1, "acme", "onboarding")).await.unwrap();

    let store = sealed(&inner, dir.path());

    assert_eq!(bodies(&store, 1).await, [WORDS; 3]);
}

#[tokio::test]
async fn record_keys_need_their_wrapping_key_and_can_be_wrapped_again() {
    let (inner, dir) = (Arc::new(Memory::new()), tempfile::tempdir().unwrap());
    sealed(&inner, dir.path()).commit(about(1, "acme", "onboarding")).await.unwrap();

    let refused = KeyFolder::open(dir.path(), secret('b'), &[], true);
    assert!(matches!(&refused, Err(Error::Refused { why }) if why.contains(".key")), "{refused:?}");

    let rewrapped = KeyFolder::open(dir.path(), secret('b'), &[secret('c'), secret('a')], true).unwrap();
    let store = Encrypted::new(inner, Arc::new(rewrapped), [LEAVING]);
    assert_eq!(bodies(&store, 1).await, [WORDS; 3]);
    assert!(KeyFolder::open(dir.path(), secret('a'), &[], true).is_err(), "the old one opens nothing now");
}

#[test]
fn a_lost_key_folder_is_an_error_and_is_not_recreated() {
    let dir = tempfile::tempdir().unwrap();

    let refused = KeyFolder::open(&dir.path().join("lost"), secret('a'), &[], true);

    assert!(
        matches!(&refused, Err(Error::Refused { why }) if why.contains("restore the folder")),
        "{refused:?}"
    );
}

#[test]
fn the_platforms_key_outlasts_every_tenant() {
    let dir = tempfile::tempdir().unwrap();

    let refused = folder(dir.path()).destroy("", Timestamp(1));

    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}
