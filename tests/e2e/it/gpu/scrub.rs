//! Clearing GPU memory, with a fake CUDA driver whose memory is a file.

use super::bench::{Bench, CLUSTER, NODE, Stamps, code};
use backends::nvml::{LocalNode, Scrub};
use serde_json::json;
use std::{fs, time::Duration};
use workflows::platform::{FilledGpu, Gpus};

const UUID: &str = "GPU-00000000-0000-4000-8000-000000000000";
const MIB: u64 = 1 << 20;
const SECRET: &[u8] = b"weights of a model that was ours";

/// A GPU of 64 MiB, full of a tenant's data.
fn used() -> Bench {
    let bench = Bench::one(json!({ "memory_mib": 64 }));
    fs::write(bench.folder.join("gpu-0.memory"), SECRET.repeat(2 * MIB as usize)).unwrap();
    bench
}

fn finds(bench: &Bench, from: usize) -> bool {
    let memory = fs::read(bench.folder.join("gpu-0.memory")).unwrap();
    memory[from..].windows(SECRET.len()).any(|bytes| bytes == SECRET)
}

async fn scrub(node: &LocalNode) -> Result<Scrub, engine::ActionError> {
    node.scrub(UUID, Duration::from_secs(60)).await
}

#[tokio::test]
async fn a_secret_in_gpu_memory_is_found_before_and_not_after_a_scrub() {
    let bench = used();
    assert!(finds(&bench, 0));

    let first = scrub(&bench.node()).await.unwrap();

    assert_eq!(first.leftovers, 31, "one sample for every 2 MiB of claimed memory");
    assert_eq!((first.mismatches, first.bytes_total, first.bytes_covered), (0, 64 * MIB, 62 * MIB));
    assert_eq!(first.coverage(), 96_875);
    assert!(first.took > Duration::ZERO);
    // The driver reserves the first MiB, and less than a block is left at the end: neither is claimed.
    let memory = fs::read(bench.folder.join("gpu-0.memory")).unwrap();
    let cleared = &memory[MIB as usize..63 * MIB as usize];
    assert!(cleared.iter().all(|byte| *byte == 0), "the memory for the next tenant is zero");

    let again = scrub(&bench.node()).await.unwrap();
    assert_eq!(again.leftovers, 0, "the pattern does not count as a user's data");
    let filled = FilledGpu::from(again);
    assert_eq!((filled.uuid.as_str(), filled.reset), (UUID, false), "no reset is claimed");
    assert_eq!(bench.state()["gpus"][0]["processes"], json!([]), "it has left the GPU");
}

#[tokio::test]
async fn memory_that_differs_from_the_written_pattern_is_counted() {
    let bench = used();
    bench.edit(|state| state["gpus"][0]["flip_at"] = json!(5 * MIB));
    let scrubbed = scrub(&bench.node()).await.unwrap();
    assert_eq!(scrubbed.mismatches, 1);
}

#[tokio::test]
async fn memory_that_cannot_be_allocated_is_not_certified() {
    let none = used();
    none.fail("cuMemAlloc_v2", json!({ "code": 2 }));
    let scrubbed = scrub(&none.node()).await.unwrap();
    assert_eq!((scrubbed.bytes_covered, scrubbed.coverage(), scrubbed.bytes_total), (0, 0, 64 * MIB));
    assert!(finds(&none, 0));

    // Fragmented memory: the largest block is refused a few times.
    let pieces = used();
    pieces.fail("cuMemAlloc_v2", json!({ "code": 2, "times": 2 }));
    let scrubbed = scrub(&pieces.node()).await.unwrap();
    assert_eq!(scrubbed.bytes_covered, 62 * MIB, "smaller blocks cover the same");
}

#[tokio::test]
async fn a_scrub_without_lockable_memory_is_slower_and_has_the_same_result() {
    let bench = used();
    bench.edit(|state| state["gpus"][0]["flip_at"] = json!(5 * MIB));
    bench.fail("cuMemAllocHost_v2", json!({ "code": 2 }));
    let scrubbed = scrub(&bench.node()).await.unwrap();
    assert_eq!((scrubbed.bytes_covered, scrubbed.mismatches), (62 * MIB, 1));
}

#[tokio::test]
async fn a_scrub_without_cuda_is_unsupported_and_never_clean() {
    let bench = used();
    let absent = bench.node_with(json!({ "cuda_library": "/nowhere/libcuda.so.1" }));
    let error = scrub(&absent).await.unwrap_err();
    assert_eq!(error.code, "platform.unsupported");
    assert!(error.message.contains("nothing can be cleared"), "{}", error.message);

    for code_ in [100, 803, 999] {
        bench.fail("cuInit", json!({ "code": code_ }));
        assert_eq!(code(scrub(&bench.node()).await), "platform.unsupported");
    }
    bench.calm();
    // A CUDA driver that shows this process other GPUs.
    bench.fail("cuDeviceGetCount", json!({ "code": 100 }));
    assert_eq!(code(scrub(&bench.node()).await), "gpu.scrub_failed");
    assert!(finds(&bench, 0));
}

#[tokio::test]
async fn a_failed_scrub_names_the_call_and_releases_the_gpu() {
    for function in ["cuMemsetD32_v2", "cuMemcpyDtoH_v2", "cuCtxSynchronize", "cuMemGetInfo_v2"] {
        let bench = used();
        bench.fail(
            function,
            json!({ "code": 214, "after": if function == "cuMemGetInfo_v2" { 0 } else { 1 } }),
        );
        let error = scrub(&bench.node()).await.unwrap_err();
        assert_eq!(error.code, "gpu.scrub_failed", "{function}: {}", error.message);
        assert!(error.message.contains(function) && error.message.contains("214"), "{}", error.message);
        assert_eq!(bench.state()["gpus"][0]["processes"], json!([]), "{function}");
    }
}

#[tokio::test]
async fn a_gpu_in_use_or_with_partitions_is_not_scrubbed() {
    let mut stamps = Stamps::new().await;
    let busy = used();
    busy.edit(|state| state["gpus"][0]["processes"] = json!([{ "pid": 8, "kind": "mps" }]));
    assert_eq!(code(scrub(&busy.node()).await), "gpu.busy");

    let parts = used();
    parts.node().set_layout(CLUSTER, NODE, "all-1g.10gb", &stamps.next("set")).await.unwrap();
    let error = scrub(&parts.node()).await.unwrap_err();
    assert_eq!(error.code, "platform.unsupported");
    assert!(error.message.contains("partitioned"), "{}", error.message);
    assert!(finds(&parts, 0));
}

#[tokio::test]
async fn a_scrub_ends_when_its_call_is_cancelled() {
    let bench = used();
    bench.fail("cuMemsetD32_v2", json!({ "slow_ms": 20 }));
    let node = bench.node();
    {
        let gone = scrub(&node);
        tokio::select! {
            answer = gone => panic!("it should take longer: {answer:?}"),
            () = tokio::time::sleep(Duration::from_millis(300)) => {}
        }
    }
    for _ in 0..200 {
        if bench.state()["gpus"][0]["processes"] == json!([]) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(bench.state()["gpus"][0]["processes"], json!([]), "it has left the GPU");
    let seen = bench.state()["fail"]["cuMemsetD32_v2"]["seen"].clone();
    assert!(seen.as_u64().unwrap() < 31, "it was aborted: {seen}");
}
