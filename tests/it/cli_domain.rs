//! The command line on workspaces, loans, reclaims, holds, reservations and sweeps. Against a real server.

use crate::served::{Served, seen, shared};
use serde_json::{Value, json};
use std::fs;

fn written(served: &Served, name: &str, text: &str) -> String {
    let path = served.dir.path().join(name);
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn workload(workspace: &str, name: &str, gpus: u64) -> String {
    format!("tenant: acme\nworkspace: {workspace}\nname: {name}\nrequests:\n  gpu/H100: {gpus}\n")
}

async fn with_acme() -> Served {
    let served = Served::unobserved().await;
    let id = served.onboard(&shared("acme")).await;
    assert_eq!(served.ended(&id).await["reason"], "completed");
    seen(&served, "acme").await;
    served
}

#[tokio::test]
async fn workloads_loans_and_a_reclaim_are_listed_and_controlled_from_the_command_line() {
    let served = with_acme().await;
    let borrows = written(&served, "borrows.yaml", &workload("research", "borrows", 8));
    let peak = written(&served, "peak.yaml", &workload("serving", "peak", 4));
    let never = written(&served, "never.yaml", &workload("research", "never", 1_000));

    let admitted = served.run(&["workload", "submit", "-f", &borrows]);
    assert_eq!((admitted.exit, admitted.out.lines().next()), (0, Some("admit")), "{admitted:?}");
    let refused = served.run(&["workload", "submit", "-f", &never]);
    assert_eq!(refused.exit, 6, "{refused:?}");
    let loans = served.run(&["loans", "list", "--where", "state=active"]);
    assert!(loans.out.contains("acme/1") && loans.out.contains("serving"), "{}", loans.out);
    assert_eq!(served.run(&["loans", "show", "acme/1", "-o", "json"]).json()["amount"], 4);
    let workspaces = served.run(&["workspaces", "list"]);
    assert!(workspaces.out.contains("gpu/H100 8/4"), "used of nominal: {}", workspaces.out);

    let waits = served.run(&["workload", "submit", "-f", &peak]);
    assert_eq!((waits.exit, waits.out.lines().next()), (10, Some("queue")), "{waits:?}");
    let found = served.run(&["executions", "list", "--where", "workflow=reclaim", "-o", "json"]).json();
    let id = found[0]["id"].as_str().unwrap().to_owned();
    served.until(&id, |item| item["state"] == "AwaitingApproval").await;
    let why = served.run(&["reclaim", "explain", &id]);
    assert_eq!(why.exit, 0, "{why:?}");
    let line = why.out.lines().find(|line| line.starts_with("borrows")).unwrap_or_else(|| panic!("{why:?}"));
    assert!(line.contains("taken"), "{line}");
    assert_eq!(served.run(&["executions", "cancel", &id, "--reason", "test"]).exit, 0);
    assert_eq!(served.run(&["executions", "wait", &id]).exit, 8, "taken back");

    let planned = served.run(&["reclaim", "plan", "--tenant", "acme", "--workload", "peak"]);
    assert!(planned.out.contains("borrows") && planned.out.contains("nothing was changed"), "{planned:?}");
    let explained =
        served.run(&["reclaim", "explain", "--tenant", "acme", "--workload", "peak", "-o", "json"]);
    assert!(explained.json()["candidates"].to_string().contains("borrows"), "{explained:?}");
    assert_eq!(served.run(&["reclaim", "plan", "--tenant", "acme"]).exit, 2, "a cause is missing");
    let most = ["reclaim", "start", "--tenant", "acme", "--workspace", "research", "--amount", "1000"];
    let most = [&most[..], &["--resource", "gpu/H100", "--wait"]].concat();
    let most = served.run(&most);
    assert!(
        most.exit == 6 && most.err.contains("the plan: the workloads of research that may be evicted"),
        "{most:?}"
    );
    let ended = served.run(&["workload", "finish", "acme/borrows", "-o", "json"]);
    assert_eq!(ended.json()["admitted_by_that"], json!(["peak"]), "{ended:?}");
}

#[tokio::test]
async fn usage_is_listed_and_written_to_a_file_from_the_command_line() {
    let served = with_acme().await;
    let borrows = written(&served, "borrows.yaml", &workload("research", "borrows", 6));
    assert_eq!(served.run(&["workload", "submit", "-f", &borrows]).exit, 0);

    let listed = served.run(&["usage", "list", "acme"]);
    let row = |class: &str| listed.out.lines().find(|line| line.contains(class)).map(str::to_owned);
    for (class, whose) in [("own", "research"), ("borrowed", "research"), ("lent", "serving")] {
        assert!(row(class).is_some_and(|line| line.starts_with(whose)), "{class}: {}", listed.out);
    }
    let rows = served.run(&["usage", "list", "acme", "--workspace", "serving", "-o", "json"]).json();
    assert!(rows.as_array().unwrap().iter().all(|row| row["workspace"] == "serving"), "{rows}");
    assert!(rows[0]["gpu_seconds"].is_string(), "digits are preserved: {rows}");

    let file = served.dir.path().join("bill.csv");
    let to = file.to_str().unwrap();
    let exported = served.run(&["usage", "export", "acme", "--format", "focus", "--file", to]);
    assert_eq!(exported.exit, 0, "{exported:?}");
    assert!(fs::read_to_string(&file).unwrap().starts_with("BilledCost,"));
    let wrong = served.run(&["usage", "list", "acme", "--from", "2026"]);
    assert!(wrong.exit == 1 && wrong.err.contains("from: write a month like"), "{wrong:?}");
    assert_eq!(served.run(&["usage", "list", "nobody"]).exit, 3, "not found");
}

#[tokio::test]
async fn holds_reservations_and_sweeps_are_managed_from_the_command_line() {
    let served = with_acme().await;
    let placed = served.run(&["hold", "place", "acme/case-1", "--kind", "legal", "--reason", "a claim"]);
    assert_eq!(placed.exit, 0, "{placed:?}");
    assert!(served.run(&["holds", "list"]).out.contains("acme/case-1"));
    let typo = served.run(&["hold", "place", "acme/case-2", "--kind", "leagl", "--reason", "a claim"]);
    assert!(typo.exit == 2 && typo.err.contains("possible values: legal, incident, billing"), "{typo:?}");
    let own = served.run(&["hold", "release", "acme/case-1", "--reason", "settled"]);
    assert_eq!(own.exit, 4, "{own:?}");
    assert!(own.err.contains("another person"), "{}", own.err);
    let token = served.user("dora", &["dpo"], None).await;
    let other = ["--token", &token, "hold", "release", "acme/case-1", "--reason", "settled"];
    assert_eq!(served.run(&other).exit, 0);
    assert_eq!(served.run(&["holds", "show", "acme/case-1", "-o", "json"]).json()["state"], "released");

    let add = ["reservation", "add", "acme/serving/peak", "--kind", "H100", "--count"];
    assert_eq!(served.run(&[&add[..], &["3"]].concat()).exit, 0);
    let beyond = ["reservation", "add", "acme/serving/more", "--kind", "H100", "--count", "3"];
    let beyond = served.run(&beyond);
    assert!(beyond.exit == 1 && beyond.err.contains("raise the quota"), "{beyond:?}");
    assert!(served.run(&["reservations", "list"]).out.contains("acme/serving/peak"));
    assert_eq!(served.run(&["reservation", "remove", "acme/serving/peak"]).exit, 0);
    assert_eq!(served.run(&["reservation", "remove", "acme"]).exit, 2);

    assert!(served.run(&["schedules", "list"]).out.contains("loan_expiry"));
    assert_eq!(served.run(&["sweep", "run", "loan_expiry"]).exit, 0);
    assert!(served.run(&["sweep", "list", "--where", "sweep=loan_expiry"]).out.contains("loan_expiry"));
    assert_eq!(served.run(&["sweep", "run", "dust"]).exit, 3);
    assert_eq!(served.run(&["certificates", "list", "-o", "json"]).json(), json!([]));
    assert!(served.run(&["decisions", "list", "-o", "json"]).json().is_array());
}

#[tokio::test]
async fn yaml_and_json_output_have_the_same_content() {
    let served = with_acme().await;
    let quotas = served.run(&["quotas", "show", "acme/serving", "-o", "json"]).json();
    let yaml = served.run(&["quotas", "show", "acme/serving", "-o", "yaml"]);
    let read: Value = serde_saphyr::from_str(&yaml.out).unwrap();
    assert_eq!(read, quotas);
    assert_eq!(quotas["use"]["gpu/H100"]["nominal"], 4, "{quotas}");
}

#[tokio::test]
async fn the_plan_of_an_offboarding_is_shown_before_it_is_requested() {
    let served = with_acme().await;
    let dry = served.run(&["tenant", "offboard", "acme", "--dry-run"]);
    assert_eq!(dry.exit, 0, "{dry:?}");
    assert!(dry.out.contains("offboard acme") && dry.out.contains("nothing was changed"), "{}", dry.out);
    assert!(dry.out.contains("things") && dry.out.contains("nodes"), "the assets to destroy: {}", dry.out);
    let asked = served.run(&[
        "tenant",
        "offboard",
        "acme",
        "--confirm",
        "acme",
        "--reason",
        "moves",
        "--wait",
        "-o",
        "json",
    ]);
    assert_eq!(asked.exit, 10, "{asked:?}");
    let id = asked.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(served.run(&["executions", "signal", &id, "cake.baked"]).exit, 1);
    assert_eq!(served.run(&["executions", "cancel", &id]).exit, 0);
    assert_eq!(served.run(&["executions", "watch", &id]).exit, 8);
}

#[tokio::test]
async fn quotas_shortages_and_incidents_have_a_dry_run_before_the_request() {
    let served = with_acme().await;
    let set = ["quota", "set", "acme/research", "gpu/H100", "2", "--reason", "done"];
    let dry = served.run(&[&set[..], &["--dry-run"]].concat());
    assert!(dry.exit == 0 && dry.out.contains("nothing was changed"), "{dry:?}");
    let done = served.run(&[&set[..], &["--wait"]].concat());
    assert_eq!(done.exit, 0, "{done:?}");
    assert_eq!(
        served.run(&["quotas", "show", "acme/research", "-o", "json"]).json()["use"]["gpu/H100"]["nominal"],
        2
    );
    let file = written(
        &served,
        "q.yaml",
        "tenant: acme\nworkspace: research\nresource: gpu/H100\nby: 1\nreason: back\n",
    );
    let dry = served.run(&["quota", "request", "-f", &file, "--dry-run", "-o", "yaml"]);
    assert!(dry.out.contains("digest:"), "{dry:?}");
    let sla = written(&served, "s.yaml", "tenant: acme\ntier: enterprise\nreason: grows\n");
    let dry = served.run(&["sla", "change", "-f", &sla, "--dry-run"]);
    assert!(dry.out.contains("nothing was changed"), "{dry:?}");
    let dry = served.run(&["capacity", "short", "eu", "H100", "--dry-run"]);
    assert!(dry.exit == 0 && dry.out.contains("ladder"), "{dry:?}");
    let dry =
        served.run(&["incident", "report", "other", "--what", "smoke", "--tenant", "acme", "--dry-run"]);
    assert!(dry.exit == 0 && dry.out.contains("smoke"), "{dry:?}");
    let typo = served.run(&["incident", "report", "gpu-fault", "--node", "node-00"]);
    assert!(typo.exit == 2 && typo.err.contains("gpu_fault"), "{typo:?}");
    let lost = served.run(&["certificate", "download", "00000000-0000-7000-8000-000000000000"]);
    assert_eq!(lost.exit, 3, "{lost:?}");
}
