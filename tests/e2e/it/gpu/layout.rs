//! Layouts of a node, from the action to the C interface.

use super::bench::{Bench, CLUSTER, NODE, Stamps, code};
use serde_json::json;
use workflows::platform::{Gpus, LayoutState};

#[tokio::test]
async fn a_layout_is_applied_to_every_gpu_and_read_back_from_three_sources() {
    let (bench, mut stamps) = (Bench::new(json!({})), Stamps::new().await);
    let node = bench.node();
    let before = node.layout(CLUSTER, NODE, &stamps.next("read")).await.unwrap();
    assert_eq!((before.profile.as_str(), before.state), ("all-disabled", LayoutState::Success));

    node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("set")).await.unwrap();

    let layout = node.layout(CLUSTER, NODE, &stamps.next("read")).await.unwrap();
    assert_eq!((layout.profile.as_str(), layout.state), ("all-1g.10gb", LayoutState::Success));
    assert_eq!((layout.hardware.as_str(), layout.allocatable.as_str()), ("all-1g.10gb", "all-1g.10gb"));
    let seven: Vec<_> = (0..7).map(|start| json!([start, 19, [1]])).collect();
    assert_eq!(bench.stands(), json!(vec![json!({ "mode": [1, 1], "instances": seven }); 8]));

    node.set_layout(CLUSTER, NODE, "mixed", &stamps.next("mixed")).await.unwrap();
    assert_eq!(node.layout(CLUSTER, NODE, &stamps.next("read")).await.unwrap().profile, "mixed");
    node.set_layout(CLUSTER, NODE, "all-disabled", &stamps.next("back")).await.unwrap();
    assert_eq!(bench.stands(), json!(vec![json!({ "mode": [0, 0], "instances": [] }); 8]));
}

#[tokio::test]
async fn matching_instances_stay_and_keep_working_during_a_change() {
    let (bench, mut stamps) = (Bench::one(json!({})), Stamps::new().await);
    let node = bench.node();
    node.set_layout(CLUSTER, NODE, "gpus:3g.40gb,3g.40gb", &stamps.next("one")).await.unwrap();
    bench.edit(|state| {
        let instance = state["gpus"][0]["instances"][1]["id"].clone();
        state["gpus"][0]["processes"] = json!([{ "pid": 7, "gi": instance, "ci": 0 }]);
    });
    bench.log();

    node.set_layout(CLUSTER, NODE, "mixed", &stamps.next("two")).await.unwrap();

    let log = bench.log();
    assert_eq!(log.iter().filter(|line| line.starts_with("destroy gi")).count(), 1, "{log:?}");
    assert_eq!(log.iter().filter(|line| line.starts_with("create gi")).count(), 2, "{log:?}");
    assert_eq!(node.layout(CLUSTER, NODE, &stamps.next("read")).await.unwrap().profile, "mixed");

    // Both would have to be removed now, and one of them is busy.
    let refused = node.set_layout(CLUSTER, NODE, "all-7g.80gb", &stamps.next("three")).await;
    assert_eq!(code(refused), "gpu.busy");
    assert_eq!(bench.log(), [""; 0], "nothing was touched");
}

#[tokio::test]
async fn the_mode_of_a_gpu_in_use_is_not_changed() {
    let bench = Bench::new(json!({ "gpus": [{}, { "processes": [{ "pid": 9, "kind": "graphics" }] }] }));
    let (node, mut stamps) = (bench.node(), Stamps::new().await);

    let error = node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("set")).await.unwrap_err();

    assert_eq!(error.code, "gpu.busy");
    assert!(error.message.contains("process 9 (graphics)"), "{}", error.message);
    assert_eq!(bench.log(), [""; 0]);
}

#[tokio::test]
async fn a_mode_that_needs_a_reset_is_reverted_and_reported() {
    let bench = Bench::new(json!({ "gpus": [{}, { "mig_needs_reset": true }] }));
    let (node, mut stamps) = (bench.node(), Stamps::new().await);

    let error = node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("set")).await.unwrap_err();

    assert_eq!(error.code, "gpu.layout_failed");
    assert!(error.message.contains("reset the GPU"), "{}", error.message);
    assert_eq!(bench.stands(), json!(vec![json!({ "mode": [0, 0], "instances": [] }); 2]));
}

#[tokio::test]
async fn an_impossible_layout_is_refused_before_any_change() {
    let bench = Bench::new(json!({ "gpus": [{}, {}] }));
    let (node, mut stamps) = (bench.node(), Stamps::new().await);
    for (layout, wanted) in [
        ("balanced", "platform.unsupported"),
        ("gpus:off", "platform.unsupported"),
        ("all-1g.5gb", "platform.unsupported"),
    ] {
        let error = node.set_layout(CLUSTER, NODE, layout, &stamps.next(layout)).await.unwrap_err();
        assert_eq!(error.code, wanted, "{layout}: {}", error.message);
        assert_eq!(bench.log(), [""; 0], "{layout}");
    }
    // The driver reports placements only after partitioning is enabled.
    let unfit = node.set_layout(CLUSTER, NODE, "gpus:off|4g.40gb,4g.40gb", &stamps.next("unfit")).await;
    assert_eq!(code(unfit), "gpu.layout_failed");
    assert_eq!(bench.log(), ["mig 1 1", "mig 1 0"]);
    assert_eq!(bench.stands(), json!(vec![json!({ "mode": [0, 0], "instances": [] }); 2]));
    let dry = workflows::platform::CallMetadata { dry_run: true, ..stamps.next("dry") };
    node.set_layout(CLUSTER, NODE, "all-1g.10gb", &dry).await.unwrap();
    assert_eq!(code(node.set_layout(CLUSTER, NODE, "all-1g.5gb", &dry).await), "platform.unsupported");
    assert_eq!(bench.log(), [""; 0], "a dry run changes nothing");
    assert_eq!(code(node.layout(CLUSTER, "n2", &stamps.next("read")).await), "platform.refused");

    let whole = Bench::one(json!({ "mig_capable": false }));
    let node = whole.node();
    node.set_layout(CLUSTER, NODE, "all-disabled", &stamps.next("off")).await.unwrap();
    assert_eq!(
        code(node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("on")).await),
        "platform.unsupported"
    );
}

#[tokio::test]
async fn a_known_key_changes_nothing_and_a_replaced_holder_is_refused() {
    let (bench, stamps) = (Bench::one(json!({})), Stamps::new().await);
    let node = bench.node();
    node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.at("set", 5)).await.unwrap();
    bench.log();

    node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.at("set", 6)).await.unwrap();
    // Another process, which has only the file.
    bench.node().set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.at("set", 6)).await.unwrap();
    assert_eq!(bench.log(), [""; 0]);

    let other = node.set_layout(CLUSTER, NODE, "all-disabled", &stamps.at("set", 7)).await;
    assert_eq!(code(other), "call.key_reused");
    let late = node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.at("set", 4)).await;
    assert_eq!(code(late), "call.fenced");
    assert_eq!(bench.log(), [""; 0]);
}

#[tokio::test]
async fn manual_changes_are_detected_and_can_be_reverted() {
    let (bench, mut stamps) = (Bench::one(json!({})), Stamps::new().await);
    let node = bench.node();
    node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("set")).await.unwrap();
    bench.edit(|state| {
        state["gpus"][0]["instances"].as_array_mut().unwrap().remove(3);
        state["gpus"][0]["instances"][0]["compute"] = json!([]);
    });

    let seen = node.layout(CLUSTER, NODE, &stamps.next("read")).await.unwrap();
    let stands = "gpus:1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb,1g.10gb:0c";
    assert_eq!((seen.hardware.as_str(), seen.profile.as_str()), (stands, stands));

    bench.log();
    node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("again")).await.unwrap();
    let log = bench.log();
    assert!(log.iter().all(|line| line.starts_with("create")) && log.len() == 3, "{log:?}");
}
