//! It keeps the contract of a store, and answers like the reference implementation.

use super::{opened, options};
use std::sync::{Arc, Mutex};
use store::{Embedded, Memory, Options, Store, conformance, postgres::Postgres};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_postgres_store_passes_conformance() {
    if options().is_none() {
        return;
    }
    let all: Mutex<Vec<Arc<Postgres>>> = Mutex::default();

    let count = conformance::run(|| async {
        let store = opened(&options().expect("a server")).await;
        let before: Vec<_> = std::mem::replace(&mut *all.lock().unwrap(), vec![store.clone()]);
        for done in before {
            done.close().await.unwrap();
        }
        store as Arc<dyn Store>
    })
    .await;

    assert!(count.clone().is_ok_and(|count| count > 30), "{count:#?}");
}

/// S14. The same random sequences on all three stores give the same answers and the same journals. `TENURE_SEQUENCES` sets their
/// number.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_embedded_and_postgres_stores_behave_equally() {
    let Some(options) = options() else { return };
    let folder = tempfile::tempdir().unwrap();
    let embedded = Arc::new(Embedded::open(folder.path(), Options::default()).unwrap().store);
    let postgres = opened(&options).await;
    let stores: Vec<Arc<dyn Store>> = vec![Arc::new(Memory::new()), embedded.clone(), postgres.clone()];
    let mut twins = conformance::Differential::new(stores, 20_261_122);
    let count = std::env::var("TENURE_SEQUENCES").ok().and_then(|count| count.parse().ok()).unwrap_or(500);

    for number in 0..count {
        if let Err(why) = twins.sequence(5).await {
            panic!("sequence {number}: {why}");
        }
    }
    twins.histories().await.unwrap();

    embedded.close().await.unwrap();
    postgres.close().await.unwrap();
}
