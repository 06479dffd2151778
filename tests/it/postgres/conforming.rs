//! It keeps what every store promises, and does the same as the reference whatever is asked.

use super::{opened, options};
use std::sync::{Arc, Mutex};
use store::{Store, conformance, postgres::Postgres};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_keeps_every_promise() {
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
