//! Many readers of the same stream.

use super::Stream;
use crate::served::{Served, large};
use serde_json::json;
use std::time::Instant;

/// Read once, sent to all. `TENURE_CASES=5` opens 1,000 streams.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_reaches_all_watchers_of_one_stream() {
    let many = usize::try_from(tests::cases(200).cases).unwrap();
    let bounds = [("TENURE_HTTP_STREAMS", "100000"), ("TENURE_HTTP_STREAMS_PER_TOKEN", "100000")];
    let served = Served::start_with(&bounds);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", crate::served::NODES).await;
    let id = served.onboard(&large("acme")).await;
    served.asked(&id).await;
    let mut streams = Vec::new();
    for _ in 0..many {
        let mut stream = Stream::open(&served, &served.admin, "/v1/watch", "").await;
        assert_eq!(stream.must().await.name, "present");
        streams.push(stream);
    }

    let began = Instant::now();
    let waiting: Vec<_> = streams
        .into_iter()
        .map(|mut stream| tokio::spawn(async move { (stream.must().await, began.elapsed()) }))
        .collect();
    let sent = served
        .json_as(&served.admin, &format!("/v1/executions/{id}:pause"), json!({ "reason": "tea" }))
        .await;
    assert_eq!(sent.status, 200, "{}", sent.body);
    let mut took = Vec::new();
    for one in waiting {
        let (told, after) = one.await.unwrap();
        assert_eq!((told.name.as_str(), told.execution()), ("changed", id.as_str()));
        took.push(after);
    }
    took.sort_unstable();
    eprintln!(
        "{many} watchers of one stream: half have an event after {:?}, all after {:?}",
        took[many / 2],
        took[many - 1]
    );
}
