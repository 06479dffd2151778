//! Pages of large bodies on the embedded store: after a restart, and after an export.

use crate::{
    Commit, Record, Revision, Write,
    paged::paged,
    tests::fixture::*,
    transfer::{Source, check, export, import},
};
use std::sync::Arc;

fn body(changed: usize) -> Vec<u8> {
    let entry = |n: usize| format!("{{\"node\":\"rack-é-{n:06}\",\"done\":{}}}", n == changed);
    format!("[{}]", (0..20_000).map(entry).collect::<Vec<_>>().join(",")).into_bytes()
}

fn write(body: Vec<u8>, expected: Option<Revision>) -> Commit {
    let record = Record { body, ..record(1) };
    Commit { record: Some(Write { record, expected }), ..Commit::default() }
}

#[tokio::test]
async fn large_bodies_are_complete_after_a_restart_and_after_an_export() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    let raw = Arc::new(open(&old, options()).0);
    let store = paged(raw.clone());
    store.commit(write(body(1), None)).await.unwrap();
    store.commit(write(body(19_000), Some(Revision(1)))).await.unwrap();
    raw.close().await.unwrap();
    drop((store, raw));

    let raw = Arc::new(open(&old, options()).0);
    let restarted = paged(raw.clone()).load(id(1)).await.unwrap().unwrap();
    let sink = Sink::default();
    export(&raw, sink.clone(), Source::KeepsRunning).await.unwrap();
    import(sink.bytes().as_slice(), &new).unwrap();
    let arrived = paged(Arc::new(open(&new, options()).0)).load(id(1)).await.unwrap().unwrap();

    assert!(restarted.body == body(19_000) && arrived.body == body(19_000));
    raw.close().await.unwrap();
    drop(raw);
    assert!(check(&old).unwrap().is_intact());
}
