//! Both stores pass the conformance cases.

use crate::{
    Memory, Store, conformance,
    tests::fixture::{open, options},
};
use std::sync::{Arc, Mutex};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_store_passes_conformance() {
    let count = conformance::run(|| async { Arc::new(Memory::new()) as Arc<dyn Store> }).await;

    assert!(count.clone().is_ok_and(|count| count > 30), "{count:#?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_embedded_store_passes_conformance() {
    let opened = Mutex::new(Vec::new());

    let count = conformance::run(|| async {
        let folder = tempfile::tempdir().unwrap();
        let (store, _) = open(folder.path(), options());
        let store = Arc::new(store);
        opened.lock().unwrap().push((store.clone(), folder));
        store as Arc<dyn Store>
    })
    .await;
    let opened = std::mem::take(&mut *opened.lock().unwrap());
    for (store, _) in &opened {
        store.close().await.unwrap();
    }

    assert!(count.clone().is_ok_and(|count| count > 30), "{count:#?}");
}

/// Random operations give the same answers and the same histories.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_operations_give_the_same_answers_in_both_stores() {
    let folder = tempfile::tempdir().unwrap();
    let (embedded, _) = open(folder.path(), options());
    let embedded = Arc::new(embedded);
    let mut twins = conformance::Differential::new(vec![Arc::new(Memory::new()), embedded.clone()], 7);

    for _ in 0..500 {
        twins.sequence(6).await.unwrap();
    }
    twins.histories().await.unwrap();

    embedded.close().await.unwrap();
}
