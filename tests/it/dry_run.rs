//! A dry run changes nothing: each command with `--dry-run` and each route with a dry run is run on a server with data of every
//! kind. A command or a route without a case here fails the tests.

use crate::{
    domain_http::ACME,
    routes::{filled, method},
    served::{NODES, Running, Served, large, seen, shared, tenure},
};
use api::{DryRunBy, RouteInfo, rules};
use cli::commands;
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{collections::BTreeMap, fs};

/// The lists of tenants, their resources and executions. Lists that change with the clock are left out.
const LISTS: [&str; 19] = [
    "/v1/approvals",
    "/v1/batches",
    "/v1/clusters",
    "/v1/decisions",
    "/v1/delegations",
    "/v1/executions",
    "/v1/groups",
    "/v1/holds",
    "/v1/limits",
    "/v1/loans",
    "/v1/nodes",
    "/v1/policies",
    "/v1/proposals",
    "/v1/quotas",
    "/v1/reservations",
    "/v1/schedules/nightly/occurrences",
    "/v1/tenants",
    "/v1/workloads",
    "/v1/workspaces",
];

const SLA: &str = "tenant: acme\ntier: enterprise\nreason: grows\n";
const QUOTA: &str = "tenant: acme\nworkspace: research\nresource: gpu/H100\nby: 1\nreason: more\n";
const POLICY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/examples/quick-policy.yaml");

/// A span in the past.
const SPAN: (&str, &str) = ("2026-01-01T00:00:00Z", "2026-01-03T00:00:00Z");

/// A server with a tenant in service, an execution that waits for approval, a paused one, and a schedule.
struct World {
    served: Served,
    waits: String,
    paused: String,
}

impl World {
    async fn new() -> Self {
        let served = Served::unobserved().await;
        let id = served.onboard(&shared(ACME)).await;
        served.ended(&id).await;
        seen(&served, ACME).await;
        let waits = served.onboard(&large("bigger")).await;
        served.asked(&waits).await;
        let paused = served.onboard(&large("third")).await;
        served.asked(&paused).await;
        let path = format!("/v1/executions/{paused}:pause");
        let told = served.json_as(&served.admin, &path, json!({ "reason": "a test" })).await;
        assert_eq!(told.status, 200, "{}", told.body);
        let own = |name: &str, text: &str| fs::write(served.dir.path().join(name), text).unwrap();
        own("new.yaml", &shared("globex"));
        own("quota.yaml", QUOTA);
        own("sla.yaml", SLA);
        let schedule = json!({ "cron": "0 0 2 * * *", "zone": "UTC", "start": {
            "workflow": "incident_response", "data": { "kind": "other", "what": "a drill", "tenants": [] }
        } });
        let set = served.ask(Method::PUT, "/v1/schedules/nightly").bearer_auth(&served.admin).json(&schedule);
        let set = served.send(set).await;
        assert!([200, 201].contains(&set.status.as_u16()), "{}", set.body);
        exported(&served);
        Self { served, waits, paused }
    }

    /// Returns everything that a dry run must not change.
    async fn stands(&self) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for list in LISTS {
            let answer = self.served.get(&format!("{list}?limit=1000")).await;
            assert_eq!(answer.status, 200, "{list}: {}", answer.body);
            all.insert(list.to_owned(), without_estimates(answer.body));
        }
        let ids: Vec<String> = items(&all["/v1/executions"]).iter().map(|item| text(item, "id")).collect();
        for id in ids {
            let path = format!("/v1/executions/{id}/journal");
            all.insert(path.clone(), self.served.get(&path).await.body);
        }
        all
    }

    /// Fails if anything has changed since `before`.
    async fn is_as_before(&self, before: &BTreeMap<String, Value>, what: &str) {
        let after = self.stands().await;
        for (path, stood) in before {
            assert_eq!(after.get(path), Some(stood), "{what} changed {path}");
        }
        assert_eq!(after.len(), before.len(), "{what} started an execution");
    }
}

/// An export of another store, in the folder of the server.
fn exported(served: &Served) {
    let other = tempfile::tempdir().unwrap();
    assert_eq!(Running::start(other.path(), &[]).stop(Signal::TERM), Some(0));
    let file = served.dir.path().join("all.jsonl");
    let made = tenure(other.path()).args(["store", "export"]).arg(&file).output().unwrap();
    assert!(made.status.success(), "{made:?}");
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(item: &Value, name: &str) -> String {
    item[name].as_str().unwrap_or_default().to_owned()
}

/// Removes estimated times, which are relative to now.
fn without_estimates(mut list: Value) -> Value {
    for item in list["items"].as_array_mut().into_iter().flatten() {
        item.as_object_mut().into_iter().for_each(|fields| drop(fields.remove("progress")));
    }
    list
}

/// The arguments of each command with `--dry-run`, by its words.
fn command_cases(world: &World) -> Vec<(&'static str, Vec<String>)> {
    let (waits, paused) = (world.waits.as_str(), world.paused.as_str());
    let cases: Vec<(&'static str, Vec<&str>)> = vec![
        ("tenant onboard", vec!["--file", "new.yaml"]),
        ("tenant offboard", vec![ACME, "--reason", "moves"]),
        ("quota request", vec!["--file", "quota.yaml"]),
        ("quota set", vec!["acme/research", "gpu/H100", "2", "--reason", "done"]),
        ("sla change", vec!["--file", "sla.yaml"]),
        ("capacity short", vec!["eu", "H100"]),
        ("incident report", vec!["gpu_fault", "--node", "n-1"]),
        ("executions cancel", vec![waits]),
        ("executions cancel", vec!["--filter", "open"]),
        ("executions pause", vec![waits]),
        ("executions pause", vec!["--filter", "open"]),
        ("executions resume", vec![paused]),
        ("executions resume", vec!["--filter", "open"]),
        ("executions retry", vec![waits]),
        ("executions retry", vec!["--filter", "open"]),
        ("leftovers release", vec![waits, "--reason", "a test"]),
        ("repair edit", vec![waits, "--reason", "a test", "--set", "request.entitlement.gpus=8"]),
        ("repair done", vec![waits, "--reason", "a test", "--evidence", "seen"]),
        ("repair not-done", vec![waits, "--reason", "a test", "--evidence", "seen"]),
        ("repair skip", vec![waits, "--reason", "a test"]),
        ("repair undo-with", vec![waits, "--reason", "a test", "ReleaseClaim", "{}"]),
        ("workflow migrate", vec![]),
        ("store import", vec!["all.jsonl"]),
        ("policy publish", vec![POLICY]),
        ("schedules backfill", vec!["nightly", "--from", SPAN.0, "--to", SPAN.1]),
        ("reclaim start", vec!["--tenant", ACME, "--overdue", "--resource", "gpu/H100"]),
        ("nodes retire", vec!["n-2", "--reason", "a test"]),
        ("nodes move", vec!["n-2", "--cluster", "eu-1"]),
    ];
    cases.into_iter().map(|(name, own)| (name, own.into_iter().map(str::to_owned).collect())).collect()
}

/// The words of a command's usage before its arguments.
fn words(usage: &str) -> String {
    let words = usage.split(' ').skip(1).take_while(|word| !word.starts_with(['<', '[', '-']));
    words.collect::<Vec<_>>().join(" ")
}

#[tokio::test]
async fn no_command_changes_anything_in_a_dry_run() {
    let world = World::new().await;
    let cases = command_cases(&world);
    let with_dry_run: Vec<String> = commands()
        .into_iter()
        .filter(|(usage, _)| usage.contains("--dry-run"))
        .map(|(usage, _)| words(&usage))
        .collect();
    for command in &with_dry_run {
        assert!(cases.iter().any(|(name, _)| name == command), "add a case for `{command} --dry-run`");
    }
    let before = world.stands().await;
    for (name, own) in &cases {
        assert!(with_dry_run.iter().any(|command| command == name), "`{name}` has no dry run");
        for more in [&["--dry-run"][..], &["--dry-run", "--exit-code"]] {
            let line: Vec<&str> =
                name.split(' ').chain(own.iter().map(String::as_str)).chain(more.iter().copied()).collect();
            let ran = world.served.run(&line);
            // Done, refused by the execution's state or by policy, or a change is predicted.
            assert!([0, 5, 6, 11].contains(&ran.exit), "{line:?}: {ran:?}");
            assert!(ran.exit != 11 || more.contains(&"--exit-code"), "{line:?}: {ran:?}");
            world.is_as_before(&before, &line.join(" ")).await;
        }
    }
}

#[tokio::test]
async fn a_dry_run_of_a_command_to_an_execution_shows_the_effect_and_changes_nothing() {
    let world = World::new().await;
    for (verb, id, phase) in [
        ("cancel", &world.waits, "finished"),
        ("pause", &world.waits, "paused"),
        ("resume", &world.paused, "forward"),
    ] {
        let line = ["executions", verb, id, "--dry-run"];
        let shown = world.served.run(&line);
        assert_eq!(shown.exit, 0, "{shown:?}");
        assert!(shown.err.contains("nothing was changed"), "{shown:?}");
        let told = world.served.run(&[&line[..], &["--exit-code", "-o", "json"]].concat());
        let (seen, expected) = (told.json()["phase"].clone(), json!(phase));
        // A cancellation may have to undo actions first.
        assert!(seen == expected || (verb == "cancel" && seen == json!("compensating")), "{verb}: {told:?}");
        assert_eq!(told.exit, 11, "{told:?}");
        if verb != "cancel" {
            assert_eq!(told.json()["would_undo"], json!([]), "{told:?}");
        }
    }
}

/// Returns the id and the body for a route with a dry run.
fn route_case(world: &World, rule: &RouteInfo) -> (String, &'static str, String) {
    let yaml = "application/yaml";
    let json = |body: Value| ("application/json", body.to_string());
    let (media, body) = match rule.path {
        "/v1/tenants:plan" => (yaml, shared("globex")),
        "/v1/fleet:plan" => ("text/csv", NODES.replace("n-", "m-")),
        "/v1/quota-requests:plan" => (yaml, QUOTA.to_owned()),
        "/v1/sla-changes:plan" => (yaml, SLA.to_owned()),
        "/v1/offboardings:plan" => json(json!({ "tenant": ACME, "basis": "tenant_request" })),
        "/v1/reclaims:plan" => json(json!({ "tenant": ACME, "overdue": true, "resource": "gpu/H100" })),
        "/v1/capacity-exhaustions:plan" => json(json!({ "region": "eu", "model": "H100" })),
        "/v1/incidents:plan" => json(json!({ "kind": "gpu_fault", "node": "n-1" })),
        "/v1/workloads:plan" => json(json!({
            "tenant": ACME, "workspace": "research", "name": "w", "requests": { "gpu/H100": 1 }
        })),
        "/v1/reservations:plan" => json(json!({
            "tenant": ACME, "workspace": "serving", "name": "peak", "kind": "H100", "count": 1
        })),
        "/v1/policies:plan" => (yaml, fs::read_to_string(POLICY).unwrap()),
        "/v1/executions:batch" => json(json!({ "verb": "cancel", "filter": "open", "dry_run": true })),
        "/v1/schedules/{name}:backfill" => json(json!({ "from": SPAN.0, "to": SPAN.1, "dry_run": true })),
        "/v1/workflow-versions:migrate" => json(json!({ "dry_run": true })),
        "/v1/nodes/{id}:retire" => json(json!({ "reason": "a test" })),
        "/v1/nodes/{id}:move" => json(json!({ "cluster": "eu-1" })),
        "/v1/executions/{id}:repair" => json(json!({ "kind": "skip", "reason": "a test" })),
        path if path.starts_with("/v1/executions/{id}:") || path.starts_with("/v1/leftovers/{id}:") => {
            json(json!({ "reason": "a test" }))
        }
        other => panic!("say how the dry run of {other} is tried"),
    };
    let id = if rule.path.ends_with(":resume") { &world.paused } else { &world.waits };
    let id = if rule.path.starts_with("/v1/nodes/") { "n-2" } else { id };
    let address = rule.path.replace("{id}", id).replace("{name}", "nightly");
    let query = match (rule.dry_run, rule.path) {
        (Some(DryRunBy::Parameter), _) => "?dry_run=true",
        (_, "/v1/fleet:plan") => "?cluster=eu-1&region=eu",
        _ => "",
    };
    (format!("{address}{query}"), media, body)
}

#[tokio::test]
async fn no_route_changes_anything_in_a_dry_run() {
    let world = World::new().await;
    let before = world.stands().await;
    let tried: Vec<RouteInfo> = rules().into_iter().filter(|rule| rule.dry_run.is_some()).collect();
    assert!(tried.len() >= 19, "{tried:?}");
    for rule in tried {
        let (path, media, body) = route_case(&world, &rule);
        let answer = world.served.post(&path, media, &body).await;
        // A refusal by the execution's state changes nothing either; other refusals mean that the command was not
        // tried.
        assert!([200, 409].contains(&answer.status.as_u16()), "{path}: {} {}", answer.status, answer.body);
        world.is_as_before(&before, &path).await;
    }
}

/// A request sent as a dry run must not be performed because its route does not support dry runs.
#[tokio::test]
async fn a_changing_route_without_a_dry_run_refuses_one() {
    let served = Served::start();
    let changes = rules().into_iter().filter(|rule| rule.method != "GET");
    for rule in changes.filter(|rule| rule.dry_run != Some(DryRunBy::Parameter)) {
        for parameter in ["dry_run=true", "dryRun=All"] {
            let path = format!("{}?{parameter}", filled(rule.path));
            let answer = served.send(served.ask(method(&rule), &path).bearer_auth(&served.admin)).await;
            assert!(answer.status == 400, "{rule:?}: {} {}", answer.status, answer.body);
            assert_eq!(answer.code(), "query.invalid", "{rule:?}: {}", answer.body);
        }
    }
    let path = "/v1/tenants?dry_run=true";
    let request = served.ask(Method::POST, path).bearer_auth(&served.admin).body(shared(ACME));
    let answer = served.send(request.header("content-type", "application/yaml")).await;
    assert!(answer.body["detail"].as_str().unwrap().contains("does not support dry runs"), "{}", answer.body);
    assert_eq!(served.get("/v1/executions").await.body["items"], json!([]));
}
