//! Several processes on one database, each as a store of its own.

use super::{opened, options};
use store::{Commit, Error, Key, Put, Read, Store};

/// Of two that have read the same, one commits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_that_have_read_the_same_one_commits() {
    let Some(options) = options() else { return };
    let (one, two) = (opened(&options).await, opened(&options).await);
    let key = Key::new("things", "a");
    let mut won = [0; 2];
    for _ in 0..50 {
        let version = one.document(&key).await.unwrap().map(|document| document.version);
        let commit = |by: u8| Commit {
            reads: vec![Read { key: key.clone(), version }],
            documents: vec![Put { key: key.clone(), body: Some(vec![by]) }],
            ..Commit::default()
        };
        let (a, b) = tokio::join!(one.commit(commit(0)), two.commit(commit(1)));
        assert_eq!(a.is_ok() as u8 + b.is_ok() as u8, 1, "{a:?} {b:?}");
        assert!([&a, &b].iter().any(|answer| matches!(answer, Err(Error::Conflict { .. }))));
        won[usize::from(b.is_ok())] += 1;
        assert_eq!(two.document(&key).await.unwrap().unwrap().body, [u8::from(b.is_ok())]);
    }
    assert_eq!(won[0] + won[1], 50);
}

/// S08. A process that was barred writes nothing more, and another of the same name is another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_is_barred_writes_nothing_more() {
    let Some(options) = options() else { return };
    let (one, two) = (opened(&options).await, opened(&options).await);
    assert_ne!(one.holder(), two.holder());
    let put = |n: u8| Commit {
        documents: vec![Put { key: Key::new("things", n.to_string()), body: Some(vec![n]) }],
        ..Commit::default()
    };
    one.commit(put(1)).await.unwrap();

    let engines = two.engines().await.unwrap();
    let first = engines.iter().find(|engine| one.holder().ends_with(&engine.id.to_string())).unwrap();
    assert!(two.bar(first.id).await.unwrap());

    let late = one.commit(put(2)).await;
    assert!(matches!(&late, Err(Error::Unavailable { why }) if why.contains("start it again")), "{late:?}");
    two.commit(put(3)).await.unwrap();
    assert!(two.document(&Key::new("things", "2")).await.unwrap().is_none());
}
