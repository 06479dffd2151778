//! The audit: reading, exporting and verifying it, and retention of executions that ended long ago.

use crate::{
    domain_http::{SITES, items},
    served::{NODES, Ran, Running, Served, files_with, large, small, tenure},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{fs, path::Path};

/// An approved tenant, its auditor's token, and another tenant.
async fn stage() -> (Served, String) {
    let served = Served::with_nodes().await;
    let olga = served.user("olga", &["platform_ops", "capacity_manager", "finance", "security"], None).await;
    let auditor = served.user("audrey", &["auditor"], Some("acme")).await;
    let id = served.onboard(&large("acme")).await;
    let other = served.onboard(&small("zeta")).await;
    let digest = served.asked(&id).await["digest"].clone();
    let approval = items(&served.get("/v1/approvals").await)[0]["id"].as_str().unwrap().to_owned();
    let digest = if digest.is_null() {
        served.get(&format!("/v1/approvals/{approval}")).await.body["digest"].clone()
    } else {
        digest
    };
    let yes = json!({ "digest": digest, "reason": "order 4711" });
    let approved = served.json_as(&olga, &format!("/v1/approvals/{approval}:approve"), yes).await;
    assert!(approved.status.is_success(), "{}", approved.body);
    served.ended(&id).await;
    served.ended(&other).await;
    (served, auditor)
}

/// Returns the audit once `holds` is true: entries are sealed with a delay.
async fn audit(served: &Served, token: &str, query: &str, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    for _ in 0..200 {
        let found = served.get_as(token, &format!("/v1/audit?limit=1000{query}")).await;
        if holds(items(&found)) {
            return items(&found).clone();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("{}", served.get_as(token, &format!("/v1/audit?limit=1000{query}")).await.body);
}

fn has(entries: &[Value], text: &str) -> bool {
    entries.iter().any(|entry| entry["says"].as_str().is_some_and(|says| says.contains(text)))
}

/// S60. By HTTP, by the command line, and with only the file and the public key.
#[tokio::test]
async fn the_audit_lists_every_command_and_an_export_is_invalid_after_one_changed_byte() {
    let (served, auditor) = stage().await;

    let own = audit(&served, &auditor, "", |entries| has(entries, "and ended: completed")).await;
    assert!(has(&own, "admin asked for onboarding of tenant/acme"), "{own:#?}");
    let vote = own.iter().find(|entry| entry["event"] == "voted").unwrap();
    assert!(vote["says"].as_str().unwrap().starts_with("olga approved, as "), "{vote}");
    assert_eq!((&vote["outcome"], &vote["reason"]), (&json!("approved"), &json!("order 4711")));
    assert!(
        vote["plan"]["digest"].as_str().unwrap().starts_with("sha256:") && vote["policy"]["version"].is_u64()
    );
    assert!(own.iter().all(|entry| entry["tenant"] == "acme"), "a tenant's auditor sees only that tenant");
    let admin = served.admin.clone();
    let all = audit(&served, &admin, "&tenant=-", |entries| has(entries, "users/audrey")).await;
    assert!(has(&all, "admin called POST /v1/users at /v1/users, which wrote"), "{all:#?}");
    assert!(has(&all, "POST /v1/fleet:import"), "{all:#?}");

    let elsewhere = tempfile::tempdir().unwrap();
    let file = elsewhere.path().join("acme.jsonl");
    let pem = elsewhere.path().join("public.pem");
    let exported = served.run(&["--token", &auditor, "audit", "export", file.to_str().unwrap()]);
    assert_eq!(exported.exit, 0, "{exported:?}");
    fs::write(&pem, served.run(&["certificate", "key"]).out).unwrap();
    let verify = |file: &Path| {
        let arguments = ["audit", "verify", file.to_str().unwrap(), "--key", pem.to_str().unwrap()];
        Ran::of(tenure(elsewhere.path()).args(arguments))
    };
    let held = verify(&file);
    assert_eq!(held.exit, 0, "{held:?}");
    assert!(held.out.contains(": valid") && held.out.contains("tenant acme"), "{held:?}");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replacen("order 4711", "order 4712", 1)).unwrap();
    let refused = verify(&file);
    assert_eq!(refused.exit, 1, "{refused:?}");
    let named = format!("entry {}", vote["number"]);
    assert!(refused.out.contains("INVALID") && refused.out.contains(&named), "{refused:?}");
    fs::write(&file, text.lines().take(4).map(|line| format!("{line}\n")).collect::<String>()).unwrap();
    assert!(verify(&file).out.contains("cut off"));

    let foreign = served.get_as(&auditor, "/v1/audit?tenant=zeta").await;
    assert_eq!(items(&foreign).len(), 0);
    assert_eq!(served.get_as(&auditor, "/v1/audit/export?tenant=zeta").await.status, 404);
    assert_eq!(served.get_as(&auditor, "/v1/audit/export?tenant=-").await.status, 404);
    assert_eq!(served.get("/v1/audit/export?tenant=nobody").await.status, 404);
    assert_eq!(
        served.run(&["audit", "list", "--tenant", "nobody"]).exit,
        3,
        "a missing list is not an empty one"
    );
    for moment in ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.0+01:00"] {
        let since = served.run(&["audit", "list", "--tenant", "acme", "--from", moment]);
        assert!(since.exit == 0 && since.out.contains("acme/1"), "{since:?}");
    }
    assert_eq!(served.get("/v1/audit/export?from=yesterday").await.code(), "query.invalid");
    let checkpoints = served.get_as(&auditor, "/v1/audit/checkpoints").await;
    assert!(!items(&checkpoints).is_empty() && !checkpoints.body.to_string().contains("zeta"));
    let metrics = served.get("/metrics").await.body.to_string();
    assert!(
        metrics.contains("tenure_audit_lag_seconds") && metrics.contains("tenure_audit_entries_sealed_total")
    );
}

/// S26. No credential is in any stored or printed text.
#[tokio::test]
async fn no_secret_is_in_the_store_the_journal_the_audit_or_the_log() {
    let elsewhere = tempfile::tempdir().unwrap();
    let planted = |name: &str, text: &str| {
        let file = elsewhere.path().join(name);
        fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let (webhook, wrapping) = ("w".repeat(40), "c0ffee01".repeat(8));
    let files = [planted("webhook", &webhook), planted("platform.key", &wrapping)];
    // No receiver is there: what would be sent is signed, and failures are logged.
    let served = Served::start_logged(&[
        ("TENURE_NOTIFY_URL", "http://127.0.0.1:1"),
        ("TENURE_NOTIFY_SECRET_FILE", &files[0]),
        ("TENURE_SEAL_KEY_FILE", &files[1]),
    ]);
    served.post("/v1/fleet:import", "application/yaml", SITES).await;
    served
        .post("/v1/fleet:import?cluster=own-1&region=eu", "text/csv", &NODES.replace("8,H100", "1,H100"))
        .await;
    let token = served.user("olga", &["platform_ops"], None).await;
    let document = small("acme").replace("isolation: dedicated", "isolation: dedicated_cluster");
    let started = served.post("/v1/tenants", "application/yaml", &document).await;
    let key = started.headers["tenure-cluster-key"].to_str().unwrap().to_owned();
    let id = started.id();
    served.until(&id, |item| item["open"] == false || !item["waiting_for"]["approval"].is_null()).await;
    served.get_as(&token, "/v1/tenants").await;
    let wrong = served.json_as(&key, "/v1/clusters/other/facts", json!({ "nodes": {} })).await;
    assert!(wrong.status.is_client_error());
    let mut told = Vec::new();
    for path in [
        "/v1/audit?limit=1000".to_owned(),
        "/v1/audit/export".to_owned(),
        "/v1/audit/export?tenant=acme".to_owned(),
        "/v1/approvals".to_owned(),
        format!("/v1/executions/{id}/journal"),
        format!("/v1/executions/{id}"),
    ] {
        let answer = served.get(&path).await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        told.push((path, answer.body.to_string()));
    }
    let log = fs::read_to_string(served.dir.path().join("log.txt")).unwrap();
    assert!(log.contains("answered") && log.contains("started"), "the log has all levels");

    let pem = fs::read_to_string(served.dir.path().join("tenure-data/certificate-key.pem")).unwrap();
    let signing = pem.lines().nth(1).unwrap().to_owned();
    let homes = [(&token, ""), (&key, ""), (&served.admin, "admin.token"), (&webhook, ""), (&wrapping, "")];
    for (whole, home) in homes.into_iter().chain([(&signing, "certificate-key.pem")]) {
        let secret = whole.rsplit('_').next().unwrap();
        assert!(secret.len() >= 32, "a secret to look for");
        for (place, text) in &told {
            assert!(!text.contains(secret), "{place}");
        }
        let found = files_with(served.dir.path(), secret);
        assert!(found.iter().all(|file| !home.is_empty() && file.ends_with(home)), "{found:?}");
        assert_eq!(found.is_empty(), home.is_empty(), "{home}");
    }
}

/// S60. The server is killed; each acknowledged change is sealed once after the restart.
#[tokio::test]
async fn the_audit_has_no_gap_after_a_server_was_killed() {
    let (served, _) = stage().await;
    let (dir, admin) = served.killed();
    let mut numbers = Vec::new();
    for _ in 0..2 {
        let running = Running::start(dir.path(), &[]);
        let file = dir.path().join("acme.jsonl");
        let arguments =
            ["--server", &running.url, "audit", "export", file.to_str().unwrap(), "--tenant", "acme"];
        let exported = Ran::of(tenure(dir.path()).args(arguments).env("TENURE_TOKEN", &admin));
        assert_eq!(exported.exit, 0, "{exported:?}");
        let verified =
            Ran::of(tenure(dir.path()).args(["audit", "verify", file.to_str().unwrap(), "-o", "json"]));
        assert_eq!(verified.exit, 0, "{verified:?}");
        numbers.push(verified.json()["entries"].as_u64().unwrap());
        drop(running);
    }
    assert_eq!(numbers[0], numbers[1], "nothing was sealed twice");
    assert!(numbers[0] > 10, "{numbers:?}");
}

/// S59.
#[tokio::test]
async fn old_executions_are_removed_and_their_votes_and_audit_entries_stay() {
    let variables = [("TENURE_RETENTION_AFTER", "1s"), ("TENURE_AUDIT_CHECKPOINT_EVERY", "1s")];
    let served = Served::start_with(&variables);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let gone = served.onboard(&small("acme")).await;
    let waits = served.onboard(&large("zeta")).await;
    served.asked(&waits).await;
    served.ended(&gone).await;
    let mut would = Vec::new();
    for _ in 0..100 {
        would = served.run(&["retention", "show", "-o", "json"]).json().as_array().unwrap().clone();
        if would.first().is_some_and(|one| one["stays"].is_null()) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert_eq!((would.len(), &would[0]["id"]), (1, &json!(gone)), "{would:?}");
    assert_eq!(served.get(&format!("/v1/executions/{gone}")).await.status, 200, "a read changes nothing");

    let ran = served.run(&["retention", "run", "-o", "json"]);

    assert_eq!(ran.json()["forgotten"], 1, "{ran:?}");
    assert_eq!(served.get(&format!("/v1/executions/{gone}")).await.status, 404);
    assert_eq!(served.get(&format!("/v1/executions/{waits}")).await.status, 200, "an open one stays");
    assert_eq!(served.get("/v1/tenants/acme").await.status, 200, "the ledger is unchanged");
    let admin = served.admin.clone();
    let told = audit(&served, &admin, "&tenant=acme", |entries| has(entries, "admin forgot execution")).await;
    assert!(has(&told, "asked for onboarding of tenant/acme"), "its audit outlives it");
}

/// S-15. Lists the actions of one person, newest first, by the API and the command line, with every page size.
#[tokio::test]
async fn the_audit_can_be_filtered_by_actor_and_kind_and_read_from_the_newest_entry() {
    let (served, auditor) = stage().await;
    let all = audit(&served, &auditor, "", |entries| has(entries, "and ended: completed")).await;

    let asked = |query: &str| format!("/v1/audit?limit=1000{query}");
    let of_olga = served.get_as(&auditor, &asked("&actor=olga")).await;
    assert!(!items(&of_olga).is_empty() && items(&of_olga).iter().all(|entry| entry["actor"] == "olga"));
    for kind in ["person", "service", "engine"] {
        let found = served.get_as(&auditor, &asked(&format!("&kind={kind}"))).await;
        assert!(items(&found).iter().all(|entry| entry["kind"] == kind), "{kind}: {}", found.body);
    }
    let people = served.get_as(&auditor, &asked("&kind=person")).await;
    assert!(items(&people).len() < all.len(), "the engine makes most entries");
    assert!(items(&people).iter().any(|entry| entry["actor"] == "olga"));

    let newest = served.get_as(&auditor, &asked("&order=newest")).await;
    let numbers =
        |page: &[Value]| page.iter().map(|entry| entry["number"].as_u64().unwrap()).collect::<Vec<_>>();
    let mut oldest = numbers(&all);
    oldest.reverse();
    assert_eq!(numbers(items(&newest)), oldest);
    let (mut paged, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = served.get_as(&auditor, &format!("/v1/audit?limit=3&order=newest{cursor}")).await;
        paged.extend(numbers(items(&page)));
        let Some(next) = page.body["next"].as_str() else { break };
        cursor = format!("&cursor={next}");
    }
    assert_eq!(paged, oldest);

    let ended = all.iter().find(|entry| entry["outcome"] == "completed").unwrap();
    assert!(ended["actuated_at"].is_string() && ended["cluster"].is_string(), "{ended}");
    assert_eq!(ended["approved"][0]["by"][0]["name"], "olga", "{ended}");
    let says = ended["says"].as_str().unwrap();
    assert!(
        says.contains(" olga ") && says.contains(" approved onboarding of tenant/acme for cluster "),
        "{says}"
    );
    assert!(says.ends_with(", outcome completed"), "{says}");

    for wrong in ["&kind=people", "&order=up"] {
        assert_eq!(served.get_as(&auditor, &asked(wrong)).await.code(), "query.invalid");
    }
    let listed = served.run(&[
        "audit",
        "list",
        "--tenant",
        "acme",
        "--actor",
        "olga",
        "--kind",
        "person",
        "--newest-first",
    ]);
    assert!(listed.exit == 0 && listed.out.contains("olga") && !listed.out.contains("engine "), "{listed:?}");
}

/// An auditor verifies without an operator: the server publishes the key and its fingerprint.
#[tokio::test]
async fn an_auditor_can_read_the_public_key_and_its_fingerprint() {
    let (served, auditor) = stage().await;
    let pem = served.run(&["certificate", "key"]).out;
    let keys = served.get_as(&auditor, "/v1/keys").await;
    assert_eq!(keys.status, 200, "{}", keys.body);
    assert_eq!(items(&keys)[0]["pem"], pem);
    let shown = served.run(&["--token", &auditor, "keys", "show"]);
    let fingerprint = items(&keys)[0]["id"].as_str().unwrap();
    assert!(shown.out.contains(fingerprint) && shown.out.contains(pem.trim()), "{shown:?}");
    assert_eq!(served.send(served.ask(Method::GET, "/v1/keys")).await.status, 401);
}
