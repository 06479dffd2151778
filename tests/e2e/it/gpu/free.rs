//! When GPUs count as free.

use super::bench::{Bench, CLUSTER, NODE, Stamps, code};
use serde_json::{Value, json};
use std::{collections::BTreeSet, time::Duration};
use workflows::platform::Gpus;

#[tokio::test]
async fn processes_that_use_a_gpu_are_named_from_every_source() {
    let mut stamps = Stamps::new().await;
    for kind in ["compute", "graphics", "mps"] {
        let bench = Bench::new(json!({ "gpus": [{}, { "processes": [{ "pid": 42, "kind": kind }] }] }));
        let seen = bench.node().clients(&BTreeSet::new(), &stamps.next("look")).await.unwrap();
        assert_eq!(seen.len(), 1, "{seen:?}");
        assert!(seen[0].to_string().contains(&format!("process 42 ({kind})")), "{}", seen[0]);

        let other = bench.node().clients(&BTreeSet::from([0]), &stamps.next("look")).await.unwrap();
        assert!(other.is_empty(), "{other:?}");
    }
}

#[tokio::test]
async fn a_process_on_a_device_of_a_partition_is_seen() {
    let (bench, mut stamps) = (Bench::one(json!({})), Stamps::new().await);
    bench.node().set_layout(CLUSTER, NODE, "all-2g.20gb", &stamps.next("set")).await.unwrap();
    bench.edit(|state| state["gpus"][0]["processes"] = json!([{ "pid": 5, "gi": 2, "ci": 0 }]));

    let seen = bench.node().clients(&BTreeSet::from([0]), &stamps.next("look")).await.unwrap();

    assert!(seen.iter().any(|client| client.pid == 5 && client.instance == Some(2)), "{seen:?}");
}

#[tokio::test]
async fn gpus_are_free_only_after_three_checks_at_intervals() {
    let (bench, mut stamps) = (Bench::one(json!({})), Stamps::new().await);
    let node = bench.node_with(json!({ "looks_apart_ms": 150 }));
    let stamp = stamps.next("look");
    let late = async {
        // After the second read.
        tokio::time::sleep(Duration::from_millis(225)).await;
        bench.edit(|state| state["gpus"][0]["processes"] = json!([{ "pid": 3 }]));
    };
    let gpus = BTreeSet::new();
    let (seen, ()) = tokio::join!(node.clients(&gpus, &stamp), late);
    assert_eq!(seen.unwrap().len(), 1);
}

#[tokio::test]
async fn unreadable_gpus_never_count_as_free() {
    let mut stamps = Stamps::new().await;
    let lists = ["Compute", "Graphics", "MPSCompute"];
    for (list, code_) in lists.iter().flat_map(|list| [(list, 3), (list, 13), (list, 999), (list, 15)]) {
        let bench = Bench::one(json!({}));
        bench.fail(&format!("nvmlDeviceGet{list}RunningProcesses_v3"), json!({ "code": code_ }));
        let seen = bench.node().clients(&BTreeSet::new(), &stamps.next("look")).await;
        assert!(seen.is_err(), "{list} {code_}: {seen:?}");
    }
    let missing: Value = json!({ "library": "/nowhere/libnvidia-ml.so.1" });
    let bench = Bench::one(json!({}));
    let seen = bench.node_with(missing).clients(&BTreeSet::new(), &stamps.next("look")).await;
    assert_eq!(code(seen), "platform.unavailable");
    let seen = bench.node().clients(&BTreeSet::from([1]), &stamps.next("look")).await;
    assert_eq!(code(seen), "node.unfit");
}
