//! The state after a layout change that fails at any of its calls.

use super::bench::{Bench, CLUSTER, NODE, Stamps};
use serde_json::{Value, json};
use workflows::platform::Gpus;

const CHANGING: [&str; 5] = [
    "nvmlDeviceSetMigMode",
    "nvmlDeviceCreateGpuInstanceWithPlacement",
    "nvmlGpuInstanceDestroy",
    "nvmlGpuInstanceCreateComputeInstance",
    "nvmlComputeInstanceDestroy",
];

/// Two GPUs, one in halves and one whole.
async fn furnished(stamps: &mut Stamps) -> Bench {
    let bench = Bench::new(json!({ "gpus": [{}, {}] }));
    bench.node().set_layout(CLUSTER, NODE, "gpus:3g.40gb,2g.20gb|off", &stamps.next("before")).await.unwrap();
    bench
}

/// Every changing call fails once, before or after its effect: the layout is then either the old or the new one.
#[tokio::test]
async fn a_change_that_fails_at_any_call_leaves_what_was_there_before() {
    let mut stamps = Stamps::new().await;
    let (mut backs, mut fine) = (0, 0);
    for function in CHANGING {
        for (after, late) in (0..12).flat_map(|after| [(after, false), (after, true)]) {
            let bench = furnished(&mut stamps).await;
            let before = bench.stands();
            bench.fail(function, json!({ "code": 999, "after": after, "times": 1, "late": late }));

            let step = format!("{function}/{after}/{late}");
            let layout = "gpus:4g.40gb,1g.10gb|3g.40gb";
            let answer = bench.node().set_layout(CLUSTER, NODE, layout, &stamps.next(&step)).await;

            match answer {
                Ok(()) => {
                    // The change never reached this call, so later calls are not reached either.
                    fine += 1;
                    break;
                }
                Err(error) => {
                    assert_eq!(error.code, "platform.unavailable", "{step}: {}", error.message);
                    assert!(error.message.contains("put back as it was"), "{step}: {}", error.message);
                    assert_eq!(bench.stands(), before, "{step}");
                    backs += 1;
                }
            }
        }
    }
    // One mode, two instances of each kind to remove, three of each to create; each fails before and after.
    assert_eq!((backs, fine), (22, CHANGING.len()));
}

#[tokio::test]
async fn what_a_rollback_cannot_restore_is_reported_as_observed() {
    let mut stamps = Stamps::new().await;
    let bench = furnished(&mut stamps).await;
    bench.fail("nvmlGpuInstanceCreateComputeInstance", json!({ "code": 23 }));
    bench.fail("nvmlGpuInstanceDestroy", json!({ "code": 15, "after": 1 }));

    let error = bench.node().set_layout(CLUSTER, NODE, "all-7g.80gb", &stamps.next("set")).await.unwrap_err();

    assert_eq!(error.code, "gpu.layout_failed");
    for part in ["could not be put back", "what stands", "profile"] {
        assert!(error.message.contains(part), "{part}: {}", error.message);
    }
    let stands = bench.stands();
    assert!(stands[0]["instances"] != json!([]), "{stands}");

    // After the repair, the same change succeeds completely.
    bench.calm();
    bench.node().set_layout(CLUSTER, NODE, "all-7g.80gb", &stamps.next("again")).await.unwrap();
    assert_eq!(bench.stands()[0]["instances"], json!([[0, 0, [7]]]));
}

/// The driver makes the instances, and the GPU does not list them: schedulers would count something else.
#[tokio::test]
async fn a_gpu_with_inconsistent_devices_is_restored() {
    let (bench, mut stamps) = (Bench::one(json!({})), Stamps::new().await);
    bench.fail("nvmlDeviceGetMigDeviceHandleByIndex", json!({ "code": 6 }));

    let error = bench.node().set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("set")).await.unwrap_err();

    assert_eq!(error.code, "gpu.layout_disagrees", "{}", error.message);
    assert!(error.message.contains("7 instances stand, and the GPU lists 0 devices"), "{}", error.message);
    assert_eq!(bench.stands(), json!([{ "mode": [0, 0], "instances": [] }]));
}

#[tokio::test]
async fn without_permission_nothing_changes_and_the_reason_is_reported() {
    let (bench, mut stamps) = (Bench::one(json!({})), Stamps::new().await);
    bench.fail("nvmlDeviceSetMigMode", json!({ "code": 4 }));

    let error = bench.node().set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("set")).await.unwrap_err();

    assert_eq!(error.code, "platform.denied");
    assert!(error.message.contains("permission"), "{}", error.message);
    let log: Value = json!(bench.log());
    assert_eq!(log, json!([]));
}
