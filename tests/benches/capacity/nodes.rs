//! The servers' requests to the database beyond their work: idle, with queued work, and while another server works. Also the
//! size of the database.

use crate::say;
use reqwest::Method;
use serde_json::json;
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tests::{
    processes::{Caller, Server},
    proxies::counting::{Traffic, Wire},
    servers::postgres::Cluster,
};

const IDLE: Duration = Duration::from_secs(30);
/// Onboardings that wait for an approval.
const PARKED: usize = 1_000;
/// Callers that request them.
const SIDE_BY_SIDE: usize = 16;

fn start(dir: &Path, wire: &Wire, name: &str) -> Server {
    let url = wire.url().replace("/postgres?", "/nodes?");
    let settings = [("TENURE_STORE_URL", url.as_str()), ("TENURE_STORE_NAME", name)];
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let program = Path::new(env!("CARGO_BIN_EXE_tenure-under-test"));
    Server::start_with(program, &dir.join(name), None, settings.into())
}

/// Returns the traffic of each wire during `work`, and the duration.
async fn during(wires: &[Wire], work: impl Future<Output = ()>) -> (Vec<Traffic>, f64) {
    let before: Vec<_> = wires.iter().map(Wire::traffic).collect();
    let began = Instant::now();
    work.await;
    let took = began.elapsed().as_secs_f64();
    (wires.iter().zip(&before).map(|(wire, before)| wire.traffic().since(before)).collect(), took)
}

fn show(traffic: &Traffic, seconds: f64) {
    let mut all: Vec<_> = traffic.statements.iter().collect();
    all.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    for (text, count) in all.into_iter().take(12) {
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        println!("       {:>8.2}/s {}", *count as f64 / seconds, text.chars().take(100).collect::<String>());
    }
}

async fn park(caller: Caller, names: Vec<usize>) {
    for n in names {
        let body = json!({
            "name": format!("tenant-{n:05}"),
            "tenant": { "tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                        "allow_preemption": false, "allow_gpu_sharing": false },
            "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu", "from": "2026-01-01", "to": "2030-01-01" },
        });
        caller.call(Method::POST, "/v1/tenants", None, Some(body)).await;
    }
}

async fn park_all(caller: &Caller) {
    let share = |part: usize| (0..PARKED).filter(|n| n % SIDE_BY_SIDE == part).collect::<Vec<_>>();
    let parts = (0..SIDE_BY_SIDE).map(|part| tokio::spawn(park(caller.clone(), share(part))));
    for part in parts.collect::<Vec<_>>() {
        part.await.expect("requests are accepted");
    }
    while caller.all("/v1/executions?state=AwaitingApproval").await.len() < PARKED {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

fn number(cluster: &Cluster, sql: &str) -> f64 {
    let url = cluster.sql_in("nodes", sql).expect("the server answers");
    url.parse().expect("a number")
}

fn size(cluster: &Cluster, table: &str) -> f64 {
    cluster.sql_in("nodes", &format!("VACUUM ANALYZE tenure.{table}")).expect("it is swept");
    let sql = format!("SELECT sum(pg_total_relation_size(relid)) FROM pg_partition_tree('tenure.{table}')");
    let sql =
        if table == "journal" { sql } else { format!("SELECT pg_total_relation_size('tenure.{table}')") };
    number(cluster, &sql)
}

fn sizes(cluster: &Cluster, what: &str) {
    let all = number(cluster, "SELECT count(*) FROM tenure.executions");
    let lines = number(cluster, "SELECT count(*) FROM tenure.journal");
    println!("\n== size: {all:.0} onboardings {what}, {:.1} lines of history each", lines / all);
    for table in ["executions", "journal", "tasks", "documents"] {
        let bytes = size(cluster, table);
        let heap = if table == "journal" { "tenure.journal_0".into() } else { format!("tenure.{table}") };
        let heap = number(cluster, &format!("SELECT pg_table_size('{heap}')"));
        say(
            &format!("b_{table}"),
            bytes / all,
            "bytes",
            &format!("each execution, of which {:.0} indexes", (bytes - heap) / all),
        );
    }
    let body = number(cluster, "SELECT avg(length(body)) FROM tenure.executions");
    println!(
        "a body has {body:.0} bytes, a line of history {:.0}",
        number(cluster, "SELECT avg(length(detail)) FROM tenure.journal")
    );
}

pub(crate) async fn measure(cluster: &Cluster) {
    cluster.sql("CREATE DATABASE nodes").expect("a database");
    let dir = tempfile::tempdir().expect("a folder");
    let wires = [Wire::to(cluster.port()).expect("a wire"), Wire::to(cluster.port()).expect("a wire")];
    let servers = [start(dir.path(), &wires[0], "a"), start(dir.path(), &wires[1], "b")];
    let caller = servers[0].caller(&servers[0].admin());
    let csv = "sn,cpu_milli,memory_mib,gpu,model\ngpu-0,128000,2097152,8,H100\n";
    let url = format!("{}/v1/fleet:import?cluster=eu-1&region=eu", servers[0].url());
    let import =
        reqwest::Client::new().post(url).bearer_auth(servers[0].admin()).header("content-type", "text/csv");
    import.body(csv).send().await.expect("the server answers");
    tokio::time::sleep(Duration::from_secs(5)).await;

    let transactions = "SELECT xact_commit FROM pg_stat_database WHERE datname = 'nodes'";
    let before = number(cluster, transactions);
    let (idle, took) = during(&wires, tokio::time::sleep(IDLE)).await;
    let all = number(cluster, transactions) - before;
    println!("\n== two servers with nothing to do, for {took:.0} s: {:.2} transactions/s both", all / took);
    for traffic in &idle {
        say("q_idle", traffic.round_trips as f64 / took, "/s", "round trips of a node with nothing to do");
    }
    show(&idle[1], took);

    let (work, took) = during(&wires, park_all(&caller)).await;
    println!("\n== {PARKED} onboardings asked of the first, in {took:.1} s");
    for (traffic, name) in work.iter().zip(["first", "second"]) {
        println!(
            "  the {name}: {} batches, notified {} times; {} checks for work, {} leases, {} queries for the next due task; {:.0} round trips/s",
            traffic.begun,
            traffic.told,
            traffic.of("WITH RECURSIVE tenants"),
            traffic.of("FOR UPDATE OF t SKIP LOCKED"),
            traffic.of("SELECT min(available)"),
            traffic.round_trips as f64 / took
        );
        show(traffic, took);
    }
    let (parked, took) = during(&wires, tokio::time::sleep(IDLE)).await;
    println!("\n== the two with {PARKED} waiting executions, for {took:.0} s");
    for traffic in &parked {
        say("q_parked", traffic.round_trips as f64 / took, "/s", "round trips of a node whose work waits");
    }
    show(&parked[1], took);
    sizes(cluster, "that wait");
    for found in caller.all("/v1/executions?state=AwaitingApproval").await {
        let id = found["id"].as_str().unwrap_or_default();
        caller.call(Method::POST, &format!("/v1/executions/{id}:cancel"), None, Some(json!({}))).await;
    }
    while number(cluster, "SELECT count(*) FROM tenure.executions WHERE open") > 0.0 {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    sizes(cluster, "that were cancelled");
}
