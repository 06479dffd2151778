//! The reported health of a node's GPUs.

use super::bench::{Bench, CLUSTER, NODE, Stamps, code};
use serde_json::{Value, json};
use workflows::platform::{GpuHealth, Gpus, Recovery};

async fn health(bench: &Bench, more: Value) -> GpuHealth {
    let mut stamps = Stamps::new().await;
    bench.node_with(more).health(CLUSTER, NODE, &stamps.next("look")).await.unwrap()
}

#[tokio::test]
async fn healthy_gpus_are_fit_with_their_counters_as_evidence() {
    let bench = Bench::new(json!({ "gpus": [{ "corrected": 3, "uncorrected_total": 2 }, {}] }));

    let health = health(&bench, json!({ "gpus": 2 })).await;

    assert!(health.fit, "{}", health.report);
    assert_eq!(health.recovery, Recovery::Nothing);
    assert!(
        health.report.contains("corrected 3") && health.report.contains("uncorrected ever 2"),
        "{}",
        health.report
    );
    assert_eq!(health.boot.len(), 36, "{}", health.boot);
}

#[tokio::test]
async fn every_kind_of_fault_makes_a_node_unfit_and_has_a_remedy() {
    for (gpu, wanted, word) in [
        (json!({ "uncorrected": 1 }), Recovery::Reset, "uncorrected memory errors"),
        (json!({ "remap_pending": 1 }), Recovery::Reset, "remapped only at its next reset"),
        (json!({ "remap_failed": 1 }), Recovery::Nothing, "could not be remapped"),
        (
            json!({ "retired_single": 1, "retired_double": 1, "retired_pending": true }),
            Recovery::Reboot,
            "pages retired 2",
        ),
        (json!({ "recovery": 1 }), Recovery::Reset, "asks for recovery: reset"),
        (json!({ "recovery": 2 }), Recovery::Reboot, "asks for recovery: reboot"),
        (json!({ "recovery": 3 }), Recovery::DrainPeers, "drain_peers"),
        (json!({ "recovery": 4 }), Recovery::DrainAndReset, "drain_and_reset"),
        (json!({ "recovery": 9 }), Recovery::Reboot, "recovery action 9"),
        (json!({ "lost": true }), Recovery::Reboot, "GPU 1 has fallen off the bus"),
    ] {
        let bench = Bench::new(json!({ "gpus": [{}, gpu] }));
        let health = health(&bench, json!({})).await;
        assert!(!health.fit, "{gpu}");
        assert_eq!(health.recovery, wanted, "{gpu}: {}", health.report);
        assert!(health.report.contains(word), "{gpu}: {}", health.report);
    }
}

#[tokio::test]
async fn the_most_severe_action_of_all_gpus_counts() {
    let bench = Bench::new(json!({ "gpus": [{ "recovery": 4 }, { "recovery": 2 }, { "recovery": 1 }] }));
    assert_eq!(health(&bench, json!({})).await.recovery, Recovery::Reboot);
}

#[tokio::test]
async fn a_missing_gpu_is_noticed_if_their_number_is_known() {
    let bench = Bench::new(json!({ "gpus": [{}, {}, {}] }));
    assert!(health(&bench, json!({})).await.fit);
    let missing = health(&bench, json!({ "gpus": 4 })).await;
    assert!(!missing.fit && missing.report.contains("3 of 4 GPUs"), "{}", missing.report);

    let none = Bench::new(json!({ "gpus": [] }));
    assert!(!health(&none, json!({})).await.fit, "a node without GPUs is not healthy");
}

#[tokio::test]
async fn unknown_values_never_count_as_healthy() {
    let mut stamps = Stamps::new().await;
    let silent = Bench::one(json!({ "ecc": false, "recovery": null }));
    silent.fail("nvmlDeviceGetFieldValues", json!({ "code": 3 }));
    assert_eq!(code(silent.node().health(CLUSTER, NODE, &stamps.next("a")).await), "platform.unsupported");

    let unknown = Bench::one(json!({ "recovery": null }));
    let health = unknown.node().health(CLUSTER, NODE, &stamps.next("b")).await.unwrap();
    assert!(health.fit && health.report.contains("recovery action unknown"), "{}", health.report);

    let unloaded = Bench::new(json!({ "init": 9 }));
    let error = unloaded.node().health(CLUSTER, NODE, &stamps.next("c")).await.unwrap_err();
    assert_eq!(error.code, "platform.unavailable");
    assert!(error.message.contains("driver is not loaded"), "{}", error.message);
    assert!(unloaded.node().facts().is_err());

    let bench = Bench::new(json!({}));
    let absent = bench.node_with(json!({ "library": "/nowhere/libnvidia-ml.so.1" }));
    let error = absent.health(CLUSTER, NODE, &stamps.next("d")).await.unwrap_err();
    assert!(error.message.contains("comes with the NVIDIA driver"), "{}", error.message);
    assert_eq!(bench.node().facts().unwrap().gpus.len(), 8);
}

#[tokio::test]
async fn invalid_settings_are_refused_with_the_field() {
    let bench = Bench::new(json!({}));
    for (more, field) in [
        (json!({ "node": "" }), "cluster, node"),
        (json!({ "state": "/nowhere/at/all/node.json" }), "state"),
        (json!({ "diagnosis": "dcgm.sh" }), "diagnosis"),
        (json!({ "layouts": { "all-mine": ["1g.10gb"] } }), "layouts"),
    ] {
        let error = backends::nvml::LocalNode::connect(bench.target(more)).unwrap_err();
        assert_eq!(error.field, field);
    }
}
