//! Changes whose caller has gone, and processes that are killed during one.

use super::bench::{Bench, CLUSTER, NODE, Stamps, code};
use serde_json::json;
use std::{env, path::Path, process::Command, time::Duration};
use workflows::platform::{Gpus, LayoutState};

const FOLDER: &str = "TENURE_E2E_GPUS";

/// Makes the change in a separate process: run only by the tests below.
#[tokio::test]
#[ignore = "a part of other tests"]
async fn as_another_process() {
    let Some(folder) = env::var_os(FOLDER) else { return };
    let stamps = Stamps::new().await;
    let _ = Bench::at(Path::new(&folder))
        .node()
        .set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.at("set", 1))
        .await;
}

#[tokio::test]
async fn a_change_of_a_killed_process_is_finished_by_another() {
    let (bench, stamps) = (Bench::new(json!({ "gpus": [{}, {}] })), Stamps::new().await);
    bench.fail("nvmlGpuInstanceCreateComputeInstance", json!({ "slow_ms": 2_000 }));
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "gpu::interrupted::as_another_process", "--ignored"])
        .env(FOLDER, &bench.folder)
        .spawn()
        .unwrap();
    until(&bench, 3).await;
    let meanwhile = bench.node().layout(CLUSTER, NODE, &stamps.at("read", 1)).await.unwrap();
    assert_eq!((meanwhile.state, meanwhile.manager_active), (LayoutState::Pending, true));
    assert_eq!(
        code(bench.node().set_layout(CLUSTER, NODE, "mixed", &stamps.at("other", 2)).await),
        "platform.unavailable"
    );
    child.kill().unwrap();
    child.wait().unwrap();
    bench.calm();
    assert_ne!(
        bench.stands()[1]["instances"].as_array().unwrap().len(),
        7,
        "it was killed during the change"
    );

    let left = bench.node().layout(CLUSTER, NODE, &stamps.at("read", 3)).await.unwrap();
    assert!(!left.manager_active && left.profile.starts_with("gpus:"), "{left:?}");
    bench.node().set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.at("set", 4)).await.unwrap();
    assert_eq!(
        bench.node().layout(CLUSTER, NODE, &stamps.at("read", 5)).await.unwrap().profile,
        "all-1g.10gb"
    );
}

/// The undo restores the state before the killed process began, not the intermediate state.
#[tokio::test]
async fn an_interrupted_change_is_rolled_back() {
    let (bench, stamps) = (Bench::one(json!({})), Stamps::new().await);
    bench.fail("nvmlGpuInstanceCreateComputeInstance", json!({ "slow_ms": 2_000 }));
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "gpu::interrupted::as_another_process", "--ignored"])
        .env(FOLDER, &bench.folder)
        .spawn()
        .unwrap();
    until(&bench, 3).await;
    child.kill().unwrap();
    child.wait().unwrap();
    bench.calm();
    bench.fail("nvmlDeviceCreateGpuInstanceWithPlacement", json!({ "code": 23 }));

    let again = bench.node().set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.at("set", 2)).await;

    assert_eq!(code(again), "gpu.layout_failed");
    assert_eq!(bench.stands(), json!([{ "mode": [0, 0], "instances": [] }]));
}

#[tokio::test]
async fn nothing_continues_after_a_cancelled_call_and_the_same_call_finishes_it() {
    let (bench, stamps) = (Bench::one(json!({})), Stamps::new().await);
    bench.fail("nvmlGpuInstanceCreateComputeInstance", json!({ "slow_ms": 50 }));
    let (node, stamp) = (bench.node(), stamps.at("set", 1));
    {
        let gone = node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamp);
        tokio::select! {
            answer = gone => panic!("it should take longer: {answer:?}"),
            () = until(&bench, 2) => {}
        }
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    let left = bench.log().len();
    assert!(left > 2, "it had begun");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(bench.log(), [""; 0], "the change does not continue");

    bench.calm();
    node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamp).await.unwrap();
    assert_eq!(bench.stands()[0]["instances"].as_array().unwrap().len(), 7);
}

#[tokio::test]
async fn a_driver_that_does_not_answer_in_time_leaves_the_outcome_unknown() {
    let (bench, stamps) = (Bench::one(json!({})), Stamps::new().await);
    bench.fail("nvmlDeviceSetMigMode", json!({ "slow_ms": 400 }));
    let mut stamp = stamps.at("set", 1);
    stamp.deadline = Duration::from_millis(100);

    let node = bench.node();
    assert_eq!(code(node.set_layout(CLUSTER, NODE, "all-1g.10gb", &stamp).await), "platform.no_answer");

    bench.fail("nvmlDeviceGetMigMode", json!({ "slow_ms": 400 }));
    stamp.deadline = Duration::from_millis(50);
    let read = bench.node().layout(CLUSTER, NODE, &stamp).await;
    assert_eq!(code(read), "platform.unavailable");
}

/// Waits until `count` compute instances were made.
async fn until(bench: &Bench, count: usize) {
    for _ in 0..2_000 {
        let state = bench.state();
        let log = state["log"].as_array().cloned().unwrap_or_default();
        if log.iter().filter(|line| line.as_str().unwrap().starts_with("create ci")).count() >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing was made: {}", bench.state());
}
