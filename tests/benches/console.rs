//! `cargo bench -p tests --bench console [-- EXECUTIONS]`: a server with 100,000 open executions and 10,000 nodes. Prints the duration
//! of each console page's requests, sent as a browser does: at once, over one connection each, read to the end.

use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::{
    fmt::Write as _,
    path::Path,
    process::ExitCode,
    time::{Duration, Instant},
};
use tests::processes::{Caller, Server};
use tokio::task::JoinSet;

const EXECUTIONS: usize = 100_000;
const CLUSTERS: usize = 5;
/// Nodes in each cluster.
const NODES: usize = 2_000;
const AT_ONCE: usize = 64;
const TIMES: usize = 60;
/// Uncounted loads of each page before the measurement.
const WARM: usize = 5;
/// The pause after all executions wait, so that background writes are complete.
const REST: Duration = Duration::from_secs(20);
/// The limit for the 95th percentile.
const WITHIN: Duration = Duration::from_millis(200);

/// The requests of each page, with placeholders: an execution, a tenant, a node.
const PAGES: &[(&str, &[&str])] = &[
    (
        "overview",
        &[
            "/v1/approvals?limit=200",
            "/v1/stuck?limit=100",
            "/v1/executions?open=true&limit=200",
            "/v1/reclaims-missed?limit=100",
            "/v1/proposals?limit=50",
            "/v1/clusters?limit=200",
            "/v1/schedules?limit=200",
            "/v1/engines",
        ],
    ),
    ("approvals", &["/v1/approvals?limit=200", "/v1/proposals?limit=50", "/v1/approvals/reviews"]),
    ("executions", &["/v1/executions?limit=50", "/v1/workflows"]),
    ("executions waiting for approval", &["/v1/executions?state=AwaitingApproval&limit=50"]),
    ("executions of a tenant", &["/v1/executions?tenant=TENANT&limit=50"]),
    ("an execution", &["/v1/executions/EXECUTION", "/v1/executions/EXECUTION/journal"]),
    ("stuck", &["/v1/stuck?limit=50"]),
    (
        "fleet",
        &[
            "/v1/regions?limit=200",
            "/v1/clusters?limit=200",
            "/v1/workloads?state=admitted&limit=1000",
            "/v1/loans?limit=1000",
        ],
    ),
    ("fleet, a thousand nodes of the map", &["/v1/nodes?limit=1000"]),
    ("a node", &["/v1/nodes/NODE", "/v1/executions?subject=node/NODE&limit=20"]),
    ("borrowing", &["/v1/loans?limit=500", "/v1/executions?workflow=reclaim&open=true&limit=20"]),
    ("tenants", &["/v1/tenants?limit=50"]),
    ("schedules", &["/v1/schedules?limit=50"]),
    ("certificates", &["/v1/certificates?limit=50"]),
    ("audit", &["/v1/audit?limit=50", "/v1/audit/checkpoints?limit=1000"]),
    ("policies", &["/v1/policies/current", "/v1/policies?limit=200"]),
    ("system", &["/v1/store", "/v1/engines", "/v1/limits", "/v1/users?limit=500"]),
];

async fn ask(caller: Caller, numbers: impl Iterator<Item = usize>) {
    for n in numbers {
        let body = json!({
            "name": format!("tenant-{n:06}"),
            "tenant": { "tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                        "allow_preemption": false, "allow_gpu_sharing": false },
            "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu", "from": "2026-01-01", "to": "2030-01-01" },
        });
        caller.call(Method::POST, "/v1/tenants", None, Some(body)).await;
    }
}

async fn import(server: &Server, cluster: usize, nodes: std::ops::Range<usize>) {
    let mut csv = String::from("sn,cpu_milli,memory_mib,gpu,model\n");
    for n in nodes {
        let _ = writeln!(csv, "node-{cluster}-{n:05},128000,2097152,8,H100");
    }
    let url = format!("{}/v1/fleet:import?cluster=eu-{cluster}&region=eu", server.url());
    let asked = Client::new().post(url).bearer_auth(server.admin()).header("content-type", "text/csv");
    let answer = asked.body(csv).send().await.expect("the server answers");
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
}

/// Opens a page once; returns the time until everything is read, and the number of bytes.
async fn opened(client: &Client, server: &str, token: &str, asks: &[String]) -> (Duration, usize) {
    let began = Instant::now();
    let mut all = JoinSet::new();
    for path in asks {
        let request = client.get(format!("{server}{path}")).bearer_auth(token).build().expect("a request");
        let client = client.clone();
        all.spawn(async move {
            let answer = client.execute(request).await.expect("the server answers");
            assert!(answer.status().is_success(), "{}: {}", answer.url().path(), answer.status());
            answer.bytes().await.expect("it is read whole").len()
        });
    }
    let bytes = all.join_all().await.into_iter().sum();
    (began.elapsed(), bytes)
}

fn share(sorted: &[Duration], of_100: usize) -> Duration {
    sorted[(sorted.len() * of_100 / 100).min(sorted.len() - 1)]
}

#[tokio::main]
async fn main() -> ExitCode {
    let executions = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(EXECUTIONS);
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(Path::new(env!("CARGO_BIN_EXE_tenure-under-test")), dir.path(), None);
    let caller = server.caller(&server.admin());
    import(&server, 0, 0..1).await;

    let began = Instant::now();
    let parts =
        (0..AT_ONCE).map(|part| tokio::spawn(ask(caller.clone(), (part..executions).step_by(AT_ONCE))));
    for part in parts.collect::<Vec<_>>() {
        part.await.expect("requests are accepted");
    }
    for cluster in 0..CLUSTERS {
        import(&server, cluster, 0..NODES).await;
    }
    println!(
        "{executions} onboardings requested and {} nodes imported in {:.0?}",
        CLUSTERS * NODES,
        began.elapsed()
    );
    // The latest execution is indexed last.
    let last = format!("/v1/executions?tenant=tenant-{:06}&state=AwaitingApproval", executions - 1);
    while caller.all(&last).await.is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    tokio::time::sleep(REST).await;

    let (client, url, token) = (Client::new(), server.url(), server.admin());
    let some: Value = caller.get(&format!("/v1/executions?limit={TIMES}")).await;
    let (mut wrong, some) = (false, some["items"].as_array().cloned().unwrap_or_default());
    println!("{:<36} {:>9} {:>9} {:>9}", "page", "p50", "p95", "KiB");
    for (page, asks) in PAGES {
        let (mut times, mut bytes) = (Vec::new(), 0);
        for item in some.iter().cycle().take(WARM + TIMES) {
            let fill = |path: &&str| {
                let path = path.replace("EXECUTION", item["id"].as_str().expect("an id"));
                let path = path.replace("TENANT", item["tenant"].as_str().expect("a tenant"));
                path.replace("NODE", "node-3-01234")
            };
            let asks: Vec<String> = asks.iter().map(fill).collect();
            let (took, read) = opened(&client, &url, &token, &asks).await;
            times.push(took);
            bytes = bytes.max(read);
        }
        times.drain(..WARM.min(times.len()));
        times.sort();
        let (half, most) = (share(&times, 50), share(&times, 95));
        wrong |= most >= WITHIN;
        println!("{page:<36} {half:>9.1?} {most:>9.1?} {:>9}", bytes / 1024);
    }
    println!("to reach: p95 under {WITHIN:?}; the server takes {} MiB of memory", server.rss() >> 20);
    if wrong { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
