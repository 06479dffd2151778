//! Onboards many tenants at once, with more requests than GPUs, on a separate world, while the server is killed repeatedly:
//! the campaign behind `tests/it/crash.rs` and the `crash` bench.

use crate::processes::{Caller, Server, World};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    time::{Duration, Instant},
};

/// The size of the campaign.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of tenants.
    pub tenants: usize,
    /// Nodes of eight GPUs each.
    pub nodes: usize,
    /// How long the kills last.
    pub killing: Duration,
    /// The time between two kills.
    pub every: Duration,
    /// The maximum time until everything is at rest afterwards.
    pub rest: Duration,
}

/// The observations.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Kills by SIGKILL.
    pub kills: usize,
    /// Executions by their end, or by their waiting state.
    pub ends: BTreeMap<String, usize>,
    /// GPUs requested, existing, and granted.
    pub gpus: (usize, usize, usize),
    /// Idempotency keys that took effect on the simulated platform.
    pub keys: usize,
    /// The time until all was at rest, including the kills.
    pub took: Duration,
    /// Violations.
    pub wrong: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (asked, there, given) = self.gpus;
        writeln!(
            f,
            "{} kills in {:.1?}; {asked} GPUs requested, {there} exist, {given} granted",
            self.kills, self.took
        )?;
        for (end, count) in &self.ends {
            writeln!(f, "  {count:>4} {end}")?;
        }
        writeln!(f, "  {} idempotency keys took effect on the platform", self.keys)?;
        for wrong in &self.wrong {
            writeln!(f, "  WRONG: {wrong}")?;
        }
        write!(f, "  {}", if self.wrong.is_empty() { "nothing wrong" } else { "NOT AS PROMISED" })
    }
}

/// Runs the campaign with these programs in `dir`.
pub async fn run(tenure: &Path, world: &Path, dir: &Path, size: Size) -> Outcome {
    let began = Instant::now();
    let world = World::start(world, dir);
    let mut server = Server::start(tenure, &dir.join("data"), Some(&world.url));
    let admin = server.caller(&server.admin());
    import(&admin, &server, size.nodes).await;
    let requester = admin.user("rita", "tenant_owner").await;
    let voters = [admin.user("olga", "platform_ops").await, admin.user("finn", "finance").await];

    let asking = tokio::spawn(ask(requester, size.tenants));
    let voting = tokio::spawn(async move { vote(&voters).await });
    let mut outcome = Outcome::default();
    while began.elapsed() < size.killing {
        tokio::time::sleep(size.every).await;
        server.kill();
        outcome.kills += 1;
        watch(&world, &mut outcome).await;
        server.restart();
    }
    let asked = asking.await.expect("everyone could ask");
    let at_rest = come_to_rest(&admin, size, began).await;
    voting.abort();

    outcome.took = began.elapsed();
    if !at_rest {
        outcome.wrong.push(format!("not at rest {:?} after the last kill", size.rest));
    }
    watch(&world, &mut outcome).await;
    judge(&admin, &world, size, asked, &mut outcome).await;
    outcome
}

pub(crate) async fn import(admin: &Caller, server: &Server, nodes: usize) {
    let rows = (0..nodes).map(|n| format!("gpu-{n:04},128000,2097152,8,H100\n"));
    let csv: String = std::iter::once("sn,cpu_milli,memory_mib,gpu,model\n".to_owned()).chain(rows).collect();
    let url = format!("{}/v1/fleet:import?cluster=eu-1&region=eu", server.url());
    let answer = reqwest::Client::new()
        .post(url)
        .bearer_auth(server.admin())
        .header("content-type", "text/csv")
        .body(csv);
    let answer = answer.send().await.expect("the server answers");
    assert!(answer.status().is_success(), "{}", answer.text().await.unwrap_or_default());
    assert_eq!(admin.all("/v1/nodes").await.len(), nodes);
}

/// Requests all tenants at once, with 4 to 64 GPUs each; returns the sum.
async fn ask(requester: Caller, tenants: usize) -> usize {
    let gpus = |n: usize| 4 + (n * 37) % 61;
    let asking = (0..tenants).map(|n| {
        let requester = requester.clone();
        tokio::spawn(async move {
            let body = json!({
                "name": format!("tenant-{n:03}"),
                "tenant": { "tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                            "allow_preemption": false, "allow_gpu_sharing": false },
                "workspaces": [{ "name": "main", "class": "production" }],
                "entitlement": { "gpu_model": "H100", "gpus": gpus(n), "region": "eu",
                                 "from": "2026-01-01", "to": "2030-01-01" },
                "compliance": [],
            });
            let (status, answer) =
                requester.call(Method::POST, "/v1/tenants", Some(&format!("ask-{n}")), Some(body)).await;
            assert_eq!(status, StatusCode::ACCEPTED, "{answer}");
        })
    });
    for asked in asking.collect::<Vec<_>>() {
        asked.await.expect("a request is accepted");
    }
    (0..tenants).map(gpus).sum()
}

/// Both voters approve every approval, without end.
pub(crate) async fn vote(voters: &[Caller]) {
    loop {
        for voter in voters {
            for case in voter.all("/v1/approvals").await {
                let path = format!("/v1/approvals/{}:approve", case["id"].as_str().unwrap_or_default());
                let body = json!({ "digest": case["digest"], "reason": "capacity is there" });
                voter.call(Method::POST, &path, None, Some(body)).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

const WAITING: [&str; 2] = ["Waitlisted", "JoiningWaitlist"];

pub(crate) async fn come_to_rest(admin: &Caller, size: Size, began: Instant) -> bool {
    while began.elapsed() < size.killing + size.rest {
        let open = admin.all("/v1/executions?open=true").await;
        let moving = |e: &&Value| e["phase"] != "parked" && !WAITING.iter().any(|state| e["state"] == *state);
        if open.iter().filter(moving).count() == 0 {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    false
}

/// Collects the violations that the simulated platform has recorded until now.
pub(crate) async fn watch(world: &World, outcome: &mut Outcome) {
    for violation in world.look("violations").await.as_array().into_iter().flatten() {
        let violation = violation.to_string();
        if !outcome.wrong.contains(&violation) {
            outcome.wrong.push(violation);
        }
    }
}

pub(crate) async fn judge(admin: &Caller, world: &World, size: Size, asked: usize, outcome: &mut Outcome) {
    let executions = admin.all("/v1/executions").await;
    if executions.len() != size.tenants {
        outcome.wrong.push(format!("{} executions for {} requests", executions.len(), size.tenants));
    }
    for execution in &executions {
        let end = execution["reason"].as_str().or(execution["state"].as_str()).unwrap_or_default();
        let id = execution["id"].as_str().unwrap_or_default();
        let why =
            admin.get(&format!("/v1/executions/{id}")).await["cause"]["code"].as_str().map(str::to_owned);
        let end = why.map_or_else(|| end.to_owned(), |why| format!("{end} ({why})"));
        *outcome.ends.entry(end.clone()).or_default() += 1;
        if execution["reason"] == "rolled_back" {
            outcome.wrong.push(format!("{} was rejected: {end}", execution["tenant"]));
        }
        if execution["phase"] == "parked" {
            outcome
                .wrong
                .push(format!("{} is parked for {end} in {}", execution["tenant"], execution["state"]));
        }
    }
    for (key, count) in world.look("effects").await.as_object().into_iter().flatten() {
        outcome.keys += 1;
        if *count != json!(1) {
            outcome.wrong.push(format!("{key} took effect {count} times"));
        }
    }
    let owners = world.look("owners").await;
    let mut given = 0;
    for node in admin.all("/v1/nodes").await {
        let id = node["id"].as_str().unwrap_or_default();
        let ours = node["owner"].as_str();
        let theirs =
            owners.as_object().and_then(|owners| owners.iter().find(|(address, _)| address.ends_with(id)));
        let theirs = theirs.and_then(|(_, owner)| owner["tenant"].as_str());
        if ours != theirs {
            outcome.wrong.push(format!("node {id}: the ledger has {ours:?}, the platform has {theirs:?}"));
        }
        if node["state"] == "in_service" {
            given += 8;
        }
    }
    outcome.gpus = (asked, size.nodes * 8, given);
}
