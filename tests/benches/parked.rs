//! `cargo bench -p tests --bench parked`: 10,000 onboardings wait for approval; the server is killed and started again. Prints
//! how long it takes until it listens and answers ready, and how much memory each parked execution costs.

use reqwest::Method;
use serde_json::json;
use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};
use tests::processes::{Caller, Server};

const PARKED: usize = 10_000;
/// What must hold: until ready, and bytes of memory for each.
const READY_WITHIN: Duration = Duration::from_secs(2);
const BYTES_EACH: u64 = 3 * 1024;

async fn park(caller: Caller, from: usize, to: usize) {
    for n in from..to {
        let body = json!({
            "name": format!("tenant-{n:05}"),
            "tenant": { "tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                        "allow_preemption": false, "allow_gpu_sharing": false },
            "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu", "from": "2026-01-01", "to": "2030-01-01" },
        });
        caller.call(Method::POST, "/v1/tenants", None, Some(body)).await;
    }
}

async fn wait_until_parked(caller: &Caller) -> usize {
    for _ in 0..600 {
        let waiting = caller.all("/v1/executions?state=AwaitingApproval").await.len();
        if waiting >= PARKED {
            return waiting;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    caller.all("/v1/executions?state=AwaitingApproval").await.len()
}

#[tokio::main]
async fn main() -> ExitCode {
    let Ok(dir) = tempfile::tempdir() else { return ExitCode::FAILURE };
    let mut server = Server::start(Path::new(env!("CARGO_BIN_EXE_tenure-under-test")), dir.path(), None);
    let caller = server.caller(&server.admin());
    let csv = "sn,cpu_milli,memory_mib,gpu,model\ngpu-0,128000,2097152,8,H100\n";
    let url = format!("{}/v1/fleet:import?cluster=eu-1&region=eu", server.url());
    let import = reqwest::Client::new()
        .post(url)
        .bearer_auth(server.admin())
        .header("content-type", "text/csv")
        .body(csv);
    if import.send().await.is_err() {
        return ExitCode::FAILURE;
    }
    server.kill();
    server.restart();
    caller.get("/readyz").await;
    let empty = server.rss();

    let began = Instant::now();
    let parts = (0..32).map(|part| park(caller.clone(), part * PARKED / 32, (part + 1) * PARKED / 32));
    for part in parts.map(tokio::spawn).collect::<Vec<_>>() {
        if part.await.is_err() {
            return ExitCode::FAILURE;
        }
    }
    let waiting = wait_until_parked(&caller).await;
    println!("{waiting} executions parked in {:.1?}; memory {} MiB", began.elapsed(), server.rss() >> 20);

    server.kill();
    let began = Instant::now();
    server.restart();
    caller.get("/readyz").await;
    let ready = began.elapsed();
    let each = server.rss().saturating_sub(empty) / PARKED as u64;
    println!("restart after SIGKILL to ready: {ready:.2?} (to reach: under {READY_WITHIN:?})");
    println!(
        "memory for each parked execution: {each} bytes (to reach: under {BYTES_EACH}); {} MiB in all",
        server.rss() >> 20
    );
    if waiting == PARKED && ready < READY_WITHIN && each < BYTES_EACH {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}
