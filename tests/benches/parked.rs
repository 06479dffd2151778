//! `cargo bench -p tests --bench parked`: 10,000 onboardings wait for approval; the server is killed and restarted. Prints the
//! time until it listens and answers ready, and the memory of each parked execution.

use reqwest::Method;
use serde_json::json;
use std::{
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};
use tests::processes::{Caller, Server};

const PARKED: usize = 10_000;
/// The number for comparison.
const FEW: usize = 500;
/// The limits: the time until ready, and bytes of memory for each.
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

/// Parks executions until there are `to`, waits for the last, kills the server and restarts it; returns the time until it
/// was ready, and its memory then.
async fn park_and_restart(server: &mut Server, caller: &Caller, from: usize, to: usize) -> (Duration, u64) {
    let share = |part: usize| from + (to - from) * part / 32;
    let parts = (0..32).map(|part| park(caller.clone(), share(part), share(part + 1)));
    for part in parts.map(tokio::spawn).collect::<Vec<_>>() {
        part.await.expect("requests are accepted");
    }
    while caller.all("/v1/executions?state=AwaitingApproval").await.len() < to {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    server.kill();
    let began = Instant::now();
    server.restart();
    caller.get("/readyz").await;
    (began.elapsed(), server.rss())
}

#[tokio::main]
async fn main() -> ExitCode {
    let dir = tempfile::tempdir().expect("a folder");
    let mut server = Server::start(Path::new(env!("CARGO_BIN_EXE_tenure-under-test")), dir.path(), None);
    let caller = server.caller(&server.admin());
    let csv = "sn,cpu_milli,memory_mib,gpu,model\ngpu-0,128000,2097152,8,H100\n";
    let url = format!("{}/v1/fleet:import?cluster=eu-1&region=eu", server.url());
    let import =
        reqwest::Client::new().post(url).bearer_auth(server.admin()).header("content-type", "text/csv");
    import.body(csv).send().await.expect("the server answers");

    // First with few executions, to exclude the memory of a server that has just recovered its last commits.
    let (_, few) = park_and_restart(&mut server, &caller, 0, FEW).await;
    let (ready, many) = park_and_restart(&mut server, &caller, FEW, PARKED).await;

    let each = many.saturating_sub(few) / (PARKED - FEW) as u64;
    println!(
        "restart after SIGKILL to ready with {PARKED} parked: {ready:.2?} (to reach: under {READY_WITHIN:?})"
    );
    println!("memory when ready: {} MiB with {FEW} parked, {} MiB with {PARKED}", few >> 20, many >> 20);
    println!("memory for each parked execution: {each} bytes (to reach: under {BYTES_EACH})");
    if ready < READY_WITHIN && each < BYTES_EACH { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
