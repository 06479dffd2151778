//! Both stores keep what every store promises.

use crate::{Memory, Store, conformance};
use std::sync::Arc;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_keeps_every_promise() {
    let count = conformance::run(|| async { Arc::new(Memory::new()) as Arc<dyn Store> }).await;

    assert!(count.clone().is_ok_and(|count| count > 30), "{count:#?}");
}
