//! `tenure demo`: onboards a tenant and kills the server during the onboarding.
//!
//! Only the platform is simulated. The demonstration uses a server process, its embedded store on disk, HTTP and SIGKILL. Everything is
//! in a temporary folder, which is removed at the end, also after a failure.

mod fleet;
mod server_process;

use crate::{
    client::{Body, Client},
    commands::{approvals, demo::server_process::ServerProcess, fleet as imports},
    execution::status::progress,
    output::say,
};
use engine::Stopwatch;
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::time::Duration;

/// The time limit of the demonstration.
const AT_MOST: Duration = Duration::from_secs(60);
/// The interval between reads of an execution.
const GLANCE: Duration = Duration::from_millis(40);

/// Runs the demonstration.
pub(crate) async fn run() -> Result<Exit, Failure> {
    let watch = Stopwatch::start();
    let shown = tokio::select! {
        shown = show() => shown,
        () = tokio::time::sleep(AT_MOST) => Err(Failure::other("the demonstration did not end in time")),
        _ = tokio::signal::ctrl_c() => Err(Failure::new(Exit::Interrupted, "interrupted")),
    };
    shown?;
    say(&format!("\nall checks passed in {:.1} s; all files are removed\n", watch.elapsed().as_secs_f32()))?;
    Ok(Exit::Done)
}

fn tell(text: &str) -> Result<(), Failure> {
    say(&format!("\n== {text}\n"))
}

/// Reports a check, and fails the demonstration unless `holds`.
fn promised(holds: bool, what: &str) -> Result<(), Failure> {
    if holds {
        return say(&format!("   ok: {what}\n"));
    }
    Err(Failure::other(format!("failed: {what}")))
}

async fn show() -> Result<(), Failure> {
    let mut stage = ServerProcess::set()?;
    tell("start a server with an embedded store in a temporary folder")?;
    let admin = stage.start().await?;
    say(&format!("   {}\n", stage.address()))?;

    tell("import a fleet of 48 simulated nodes")?;
    let report = admin.post("/v1/fleet:import?cluster=eu-1&region=eu", csv(fleet::nodes())).await?.value()?;
    say(&indented(&imports::page(&report)))?;
    promised(report.pointer("/report/added") == Some(&json!(48)), "48 nodes are in the inventory")?;

    tell("alice, an operator, requests the tenant acme with 16 H100")?;
    let (alice, bob) = (person(&admin, "alice").await?, person(&admin, "bob").await?);
    let body = Body { media: "application/yaml", text: fleet::TENANT.into(), key: None, labels: Vec::new() };
    let started = alice.post("/v1/tenants", body).await?.value()?;
    let id = text(&started, "id").to_owned();
    let asked = until(&alice, &id, |item| !waits_for(item).is_null()).await?;
    let case = alice.get(&format!("/v1/approvals/{id}")).await?.value()?;
    tell("the execution waits for an approval of this plan")?;
    say(&indented(&approvals::page(&case)))?;

    let decision = json!({ "digest": case.get("digest"), "reason": "the order is signed" });
    let approve = format!("/v1/approvals/{id}:approve");
    tell("alice tries to approve her own request")?;
    let own = alice.post(&approve, Body::json(&decision)).await;
    let refusal = own.err().map(|failure| failure.body()).unwrap_or_default();
    say(&format!("   {}\n", text(&refusal, "detail")))?;
    promised(
        text(&refusal, "code") == "approval.own_request",
        "a requester cannot approve their own request",
    )?;
    tell("bob approves")?;
    bob.post(&approve, Body::json(&decision)).await?;

    let before = kill_half_way(&mut stage, &alice, &id, &asked).await?;
    let admin = stage.start().await?;
    let alice = admin.with_token(alice.token());
    tell("restart the server on the same folder; the execution continues")?;
    let done = follow(&alice, &id).await?;
    check_the_end(&admin, &id, &done, before).await?;
    stage.strike().await
}

/// Watches the execution and kills the server while nodes are taken. Returns the number of committed steps.
async fn kill_half_way(
    stage: &mut ServerProcess,
    as_who: &Client,
    id: &str,
    from: &Value,
) -> Result<usize, Failure> {
    tell("kill the server (SIGKILL) during provisioning")?;
    let mut told = text(from, "state").to_owned();
    loop {
        let item = as_who.get(&format!("/v1/executions/{id}")).await?.value()?;
        if text(&item, "state") != told {
            told = text(&item, "state").to_owned();
            say(&format!("   {}\n", progress(&item)))?;
        }
        if text(&item, "state") == fleet::KILL_IN {
            let steps = journal(as_who, id).await?.len();
            stage.kill()?;
            say(&format!("   killed in {told}; the journal has {steps} entries\n"))?;
            return Ok(steps);
        }
        if item.get("open") == Some(&Value::Bool(false)) {
            return Err(Failure::other(format!("failed: the execution ended as {}", text(&item, "reason"))));
        }
        tokio::time::sleep(GLANCE).await;
    }
}

/// Shows each state until the execution ends.
async fn follow(client: &Client, id: &str) -> Result<Value, Failure> {
    let mut told = String::new();
    loop {
        let item = client.get(&format!("/v1/executions/{id}")).await?.value()?;
        if text(&item, "state") != told {
            told = text(&item, "state").to_owned();
            say(&format!("   {}\n", progress(&item)))?;
        }
        if item.get("open") == Some(&Value::Bool(false)) || text(&item, "phase") == "parked" {
            return Ok(item);
        }
        tokio::time::sleep(GLANCE).await;
    }
}

async fn check_the_end(client: &Client, id: &str, done: &Value, before: usize) -> Result<(), Failure> {
    promised(text(done, "reason") == "completed", "the execution completed")?;
    let lines = journal(client, id).await?;
    promised(lines.len() > before, "the journal continues, and no committed step was lost")?;
    let claims =
        lines.iter().filter(|line| text(line, "from") == "Claiming" && text(line, "to") != "Claiming");
    promised(claims.count() == 1, "the nodes were claimed once")?;
    let tenant = client.get("/v1/tenants/acme").await?.value()?;
    promised(text(&tenant, "state") == "active", "the tenant acme is active")?;
    let nodes = client.all("/v1/nodes", "&owner=acme").await?;
    let gpus: u64 = nodes.iter().filter_map(|node| node.pointer("/gpu/count").and_then(Value::as_u64)).sum();
    promised(gpus == 16, "it owns 16 GPUs on dedicated nodes")?;
    let serve = nodes.iter().all(|node| text(node, "state") == "in_service");
    promised(serve, "all of its nodes are in service")
}

async fn journal(client: &Client, id: &str) -> Result<Vec<Value>, Failure> {
    let mut page = client.get(&format!("/v1/executions/{id}/journal")).await?.value()?;
    match page.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => Ok(items),
        _ => Err(Failure::other("the journal is not a list")),
    }
}

/// Creates a user and returns a client with its token.
async fn person(admin: &Client, name: &str) -> Result<Client, Failure> {
    let body = json!({ "name": name, "roles": ["platform_ops"] });
    let added = admin.post("/v1/users", Body::json(&body)).await?.value()?;
    Ok(admin.with_token(text(&added, "token")))
}

async fn until(client: &Client, id: &str, holds: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
    loop {
        let item = client.get(&format!("/v1/executions/{id}")).await?.value()?;
        if holds(&item) {
            return Ok(item);
        }
        tokio::time::sleep(GLANCE).await;
    }
}

fn waits_for(item: &Value) -> Value {
    item.pointer("/waiting_for/approval").cloned().unwrap_or(Value::Null)
}

fn text<'a>(item: &'a Value, name: &str) -> &'a str {
    item.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn csv(text: String) -> Body {
    Body { media: "text/csv", text, key: None, labels: Vec::new() }
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("   {line}\n")).collect()
}
