//! The shipped alerts and dashboards, with a real Prometheus that scrapes a real server.

mod prometheus;

use backends::simulated::{Fault, FaultKind, LocalWorld, Script};
use prometheus::{Prometheus, checked, programs, promtool};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tests::processes::{Caller, Server};

const TENURE: &str = env!("CARGO_BIN_EXE_tenure-on-real-servers");
const PATIENCE: Duration = Duration::from_secs(60);

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../api/packaging/observability")
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

fn yaml(name: &str) -> Value {
    serde_saphyr::from_str(&read(&shipped().join(name))).unwrap()
}

/// Returns every rule of a file.
fn rules(file: &Value) -> impl Iterator<Item = &Value> {
    let groups = file["groups"].as_array().unwrap().iter();
    groups.flat_map(|group| group["rules"].as_array().unwrap())
}

/// Returns the dashboards by file name, with their expressions.
fn dashboards() -> BTreeMap<String, Vec<String>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(shipped().join("dashboards")).unwrap() {
        let path = entry.unwrap().path();
        let board: Value = serde_json::from_str(&read(&path)).unwrap();
        let panels = board["panels"].as_array().unwrap().iter();
        let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
        let expressions = targets.map(|target| target["expr"].as_str().unwrap().replace("$job", "tenure"));
        found.insert(path.file_name().unwrap().to_string_lossy().into_owned(), expressions.collect());
    }
    found
}

/// Returns the metrics that an expression names: words with our prefix.
fn named(expression: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    let words = expression.split(|c| !word(c));
    words
        .filter(|word| word.starts_with("tenure_") || word.starts_with("tenure:"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_rules_are_valid_and_every_alert_has_a_test_and_a_runbook_link() {
    let Some(programs) = programs() else { return };
    for arguments in
        [&["check", "rules", "rules.yaml", "alerts.yaml"][..], &["test", "rules", "alerts_test.yaml"][..]]
    {
        let ran = promtool(&programs, &shipped(), arguments);
        let said = [ran.stdout, ran.stderr].concat();
        assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&said));
    }

    let (alerts, tests) = (yaml("alerts.yaml"), read(&shipped().join("alerts_test.yaml")));
    let page = |name: &str| read(&shipped().join("../../../docs").join(name));
    let pages = ["operations.md", "slo.md"].map(|name| (name, page(name)));
    let mut seen = 0;
    for alert in rules(&alerts) {
        let name = alert["alert"].as_str().unwrap();
        assert!(tests.contains(&format!("ALERTS{{alertname=\"{name}\", ")), "no test shows {name} firing");
        let says =
            |what: &str| alert["annotations"][what].as_str().unwrap_or_else(|| panic!("{name}: {what}"));
        assert!(!says("summary").is_empty() && !says("description").is_empty(), "{name}");
        let (file, anchor) = says("runbook_url").strip_prefix("docs/").unwrap().split_once('#').unwrap();
        let (_, page) =
            pages.iter().find(|(name, _)| *name == file).unwrap_or_else(|| panic!("{name}: {file}"));
        assert!(page.contains(&format!("<a id=\"{anchor}\"></a>`{name}` (")), "{file} lacks {name}");
        assert!(matches!(alert["labels"]["severity"].as_str(), Some("page" | "ticket")), "{name}");
        seen += 1;
    }
    assert!(seen >= 25, "{seen}");
}

/// A server on a world that refuses to remove tenants of this name. It has a tenant that lends, a parked one, one that waits
/// for nodes, and one that waits for approval.
async fn in_trouble(dir: &Path) -> (Server, Caller) {
    let world = Arc::new(LocalWorld::default());
    let refuses = |action| Fault::on(action, FaultKind::RefuseBefore).named("*broken*").times(0);
    let faults = vec![refuses("CreateIdentity"), refuses("DestroyTenantKey")];
    world.script(Script { faults, random: None });
    let platform = format!("http://{}", tests::servers::world::serve_here(world).await.unwrap());
    let server = Server::start_with(TENURE.as_ref(), &dir.join("data"), Some(&platform), Vec::new());
    let staff = server.caller(&server.admin());
    let rows: String = (1..=2).map(|node| format!("n-{node},96000,786432,8,H100\n")).collect();
    let nodes = format!("sn,cpu_milli,memory_mib,gpu,model\n{rows}");
    sent(&server, "/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", &nodes).await;

    let acme = onboard(&server, "acme", "research", 8, &["serving", "exploring"]).await;
    until(&staff, &acme, |item| item["reason"] == "completed").await;
    let broken = onboard(&server, "broken", "research", 8, &[]).await;
    until(&staff, &broken, |item| item["reason"] == "compensation_blocked").await;
    let late = onboard(&server, "late", "research", 8, &[]).await;
    until(&staff, &late, |item| item["state"] == "Waitlisted").await;
    let large = onboard(&server, "large", "enterprise", 16, &[]).await;
    until(&staff, &large, |item| !item["waiting_for"]["approval"].is_null()).await;
    borrow(&staff).await;
    (server, staff)
}

/// The metrics follow Prometheus' rules: exactly the counters end in `_total`, and each metric has a help line.
async fn sound(programs: &Path, url: &str) {
    let text = reqwest::get(format!("{url}/metrics")).await.unwrap().text().await.unwrap();
    // `promtool` reads the older text format: a counter has its full name, and there are no end marker and no exemplars.
    let counters = text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"));
    let counters: BTreeSet<&str> = counters.collect();
    let older = text.lines().filter(|line| *line != "# EOF").map(|line| match line.strip_prefix("# ") {
        Some(comment) => {
            let mut words = comment.splitn(3, ' ');
            let (kind, name) = (words.next().unwrap(), words.next().unwrap());
            let total = if counters.contains(name) { "_total" } else { "" };
            format!("# {kind} {name}{total} {}", words.next().unwrap_or_default())
        }
        None => line.split(" # {").next().unwrap().to_owned(),
    });
    let older: String = older.map(|line| line + "\n").collect();
    let said = checked(programs, &older);
    assert!(said.is_empty(), "{said}");
}

async fn sent(server: &Server, path: &str, media: &str, body: &str) -> Value {
    let request = reqwest::Client::new().post(format!("{}{path}", server.url())).bearer_auth(server.admin());
    let answer = request.header("content-type", media).body(body.to_owned()).send().await.unwrap();
    let (status, text) = (answer.status(), answer.text().await.unwrap());
    assert!(status.is_success(), "{path}: {text}");
    serde_json::from_str(&text).unwrap()
}

async fn onboard(server: &Server, name: &str, tier: &str, gpus: u64, workspaces: &[&str]) -> String {
    let each = gpus / u64::try_from(workspaces.len().max(1)).unwrap();
    let workspaces: Vec<_> = workspaces
        .iter()
        .map(|name| json!({ "name": name, "class": "research", "quotas": { "gpus": each } }))
        .collect();
    let mut wanted = json!({
        "name": name,
        "tenant": { "tier": tier, "isolation": "dedicated", "data_residency": "eu-only",
                    "allow_preemption": true, "allow_gpu_sharing": false },
        "entitlement": { "gpu_model": "H100", "gpus": gpus },
    });
    if !workspaces.is_empty() {
        wanted["workspaces"] = json!(workspaces);
    }
    let started = sent(server, "/v1/tenants", "application/yaml", &wanted.to_string()).await;
    started["id"].as_str().unwrap_or_else(|| panic!("{started}")).to_owned()
}

/// One workspace of acme uses all of its GPUs, half of them on loan, once they have been observed.
async fn borrow(staff: &Caller) {
    let wanted =
        json!({ "tenant": "acme", "workspace": "exploring", "name": "long", "requests": { "gpu/H100": 8 } });
    let (status, said) = staff.call(Method::POST, "/v1/workloads", None, Some(wanted)).await;
    assert!(status.is_success(), "{said}");
    let deadline = Instant::now() + PATIENCE;
    while staff.get("/v1/loans?state=active").await["items"].as_array().unwrap().is_empty() {
        assert!(Instant::now() < deadline, "{}", staff.get("/v1/workloads").await);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the execution once it matches.
async fn until(staff: &Caller, id: &str, so: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let item = staff.get(&format!("/v1/executions/{id}")).await;
        if so(&item) {
            return item;
        }
        assert!(Instant::now() < deadline, "{item:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn every_metric_of_alerts_and_dashboards_exists_and_a_parked_execution_fires_its_alert() {
    let Some(programs) = programs() else { return };
    let dir = tempfile::tempdir().unwrap();
    let (server, _staff) = in_trouble(dir.path()).await;
    let target = server.url().trim_start_matches("http://").to_owned();
    let seen = Prometheus::start(&programs, dir.path(), &shipped(), &target).await;

    let parked = |alert: &Value| {
        let labels = &alert["labels"];
        alert["state"] == "firing"
            && labels["alertname"] == "TenureExecutionHalfDone"
            && labels["reason"] == "compensation_blocked"
    };
    let alerts = seen.until("alerts", |all| all["alerts"].as_array().unwrap().iter().any(parked)).await;
    let all = alerts["alerts"].as_array().unwrap();
    let fired = all.iter().find(|alert| parked(alert)).unwrap();
    assert_eq!(
        fired["annotations"]["description"],
        "1 executions are parked for compensation_blocked, holding what they have made."
    );
    // Alerts from before the first scrape resolve at the next evaluation.
    let healthy = ["TenureDown", "TenureStoreRefusesCommits", "TenureStoreHeld", "TenureReclaimMissed"];
    let well = |alert: &Value| healthy.iter().all(|name| alert["labels"]["alertname"] != **name);
    seen.until("alerts", |all| all["alerts"].as_array().unwrap().iter().all(well)).await;

    let names = seen.get("label/__name__/values", &[]).await;
    let mut served: BTreeSet<_> =
        names.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect();
    let recorded = yaml("rules.yaml");
    served.extend(rules(&recorded).map(|rule| rule["record"].as_str().unwrap().to_owned()));
    let (alerts, boards) = (yaml("alerts.yaml"), dashboards());
    let expressions = rules(&alerts).chain(rules(&recorded)).map(|rule| rule["expr"].as_str().unwrap());
    let expressions: Vec<_> = expressions.chain(boards.values().flatten().map(String::as_str)).collect();
    assert!(boards.len() >= 4 && expressions.len() > 100, "{} {}", boards.len(), expressions.len());
    let missing: BTreeSet<String> =
        expressions.iter().flat_map(|text| named(text)).filter(|name| !served.contains(name)).collect();
    // Metrics of a certificate and of channels exist only with one: `tests/it/tls.rs`, `tests/it/channels/seen_to.rs`.
    let elsewhere = |name: &String| name.starts_with("tenure_tls_") || name == "tenure_deliveries";
    let missing: BTreeSet<_> = missing.into_iter().filter(|name| !elsewhere(name)).collect();
    assert!(missing.is_empty(), "{missing:?} are not served");
    sound(&programs, &server.url()).await;
    for expression in boards.values().flatten() {
        seen.get("query", &[("query", expression)]).await;
    }
    let evaluated = seen.until("rules", |all| rules(all).all(|rule| rule["health"] != "unknown")).await;
    for rule in rules(&evaluated) {
        assert_eq!(rule["health"], "ok", "{rule:#}");
    }
}
