//! Streams of one server while another one works.

use super::{options, served::start};
use crate::{
    served::{NODES, large},
    streams::{Stream, ends, journal},
};
use serde_json::{Value, json};
use std::path::Path;
use tests::processes::World;

/// Both servers stream the commits of either one; an event id is valid on both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watcher_receives_the_commits_of_another_server() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(Path::new(env!("CARGO_BIN_EXE_world")), dir.path());
    let platform: &[(&str, &str)] = &[("TENURE_PLATFORM", &world.url)];
    let one = start(&options, "one", platform);
    let mut two = start(&options, "two", platform);
    two.admin.clone_from(&one.admin);
    one.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let olga = two.user("olga", &["platform_ops", "capacity_manager", "finance", "security"], None).await;
    let mut here = Stream::open(&one, &one.admin, "/v1/watch", "").await;
    let mut there = Stream::open(&two, &two.admin, "/v1/watch", "").await;
    let mut asked = Stream::open(&two, &olga, "/v1/approvals/events", "").await;
    for stream in [&mut here, &mut there, &mut asked] {
        assert_eq!(stream.must().await.name, "present");
    }

    let id = one.onboard(&large("acme")).await;
    let opened = asked.must().await;
    assert_eq!((opened.name.as_str(), &opened.data["approval"]["execution"]), ("opened", &json!(id)));
    let yes = json!({ "digest": opened.data["approval"]["digest"], "reason": "order 4711" });
    assert_eq!(one.json_as(&olga, &format!("/v1/approvals/{id}:approve"), yes).await.status, 200);
    let (here, there) = (here.until(ends).await, there.until(ends).await);
    let facts =
        |told: &[crate::streams::Told]| told.iter().map(crate::streams::Told::fact).collect::<Vec<_>>();
    assert_eq!(facts(&here), facts(&there), "both send the same events, with the same ids");
    let entries: Vec<Value> =
        there.iter().flat_map(|told| told.data["entries"].as_array().unwrap().clone()).collect();
    assert_eq!(entries, journal(&two, &id).await);

    let middle = here.len() / 2;
    let mut moved = Stream::open(&two, &two.admin, "/v1/watch", &here[middle].id).await;
    assert_eq!(
        facts(&moved.until(ends).await),
        facts(&there[middle + 1..]),
        "interrupted there, it resumes here"
    );
}
