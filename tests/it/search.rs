//! Searching executions, and commands for many of them: over HTTP, from the command line, and across a kill.

use crate::{
    domain_http::items,
    served::{Served, TENURE, large, page},
};
use engine::Field;
use reqwest::Method;
use serde_json::{Value, json};
use std::{collections::BTreeSet, path::Path, time::Duration};
use strum::VariantArray as _;
use tests::processes::Server;

fn escaped(filter: &str) -> String {
    filter.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

async fn subjects(served: &Served, token: &str, filter: &str) -> BTreeSet<String> {
    let answer = served.get_as(token, &format!("/v1/executions?filter={}", escaped(filter))).await;
    assert_eq!(answer.status, 200, "{filter}: {}", answer.body);
    items(&answer).iter().map(|item| item["subject"].as_str().unwrap().to_owned()).collect()
}

fn named(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| format!("tenant/{name}")).collect()
}

/// Three tenants that wait for approval.
async fn three() -> Served {
    let served = Served::with_nodes().await;
    for name in ["acme", "beta", "gamma"] {
        let id = served.onboard(&large(name)).await;
        served.asked(&id).await;
    }
    served
}

#[tokio::test]
async fn executions_are_found_by_a_filter_and_the_token_of_a_tenant_finds_only_its_own() {
    let served = three().await;
    let owner = served.user("olga", &["tenant_owner"], Some("beta")).await;
    let admin = served.admin.clone();
    let all = named(&["acme", "beta", "gamma"]);

    assert_eq!(subjects(&served, &admin, "").await, all);
    assert_eq!(
        subjects(&served, &admin, "tenant in (acme, gamma) and phase = forward").await,
        named(&["acme", "gamma"])
    );
    assert_eq!(
        subjects(&served, &admin, "approver = platform_ops and not resource = tenant/beta").await,
        named(&["acme", "gamma"])
    );
    assert_eq!(
        subjects(&served, &admin, "state ~ Awaiting and age < 1h and open and not has parent").await,
        all
    );
    assert_eq!(subjects(&served, &admin, "stuck or finished or idle > 1h").await, named(&[]));
    for filter in ["", "tenant = acme or tenant = beta", "not tenant = beta or open"] {
        assert_eq!(subjects(&served, &owner, filter).await, named(&["beta"]), "{filter}");
    }
    assert_eq!(subjects(&served, &owner, "tenant = acme").await, named(&[]));
    assert!(items(&served.get_as(&owner, "/v1/stuck").await).is_empty());

    let wrong = served.get(&format!("/v1/executions?filter={}", escaped("open and tenat = acme"))).await;
    assert_eq!((wrong.status.as_u16(), wrong.code()), (400, "filter.misread"), "{}", wrong.body);
    assert_eq!((&wrong.body["position"], &wrong.body["nearest"]), (&json!(10), &json!("tenant")));
    let listed = served.run(&["executions", "list", "--filter", "tenant = acme", "-o", "json"]).json();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["parent"]), (1, &Value::Null));
    let misread = served.run(&["executions", "list", "--filter", "tenant > acme"]);
    assert!(misread.exit != 0 && misread.err.contains("character 8"), "{misread:?}");
    assert_eq!(served.run(&["stuck", "--filter", "tenant = acme", "-o", "json"]).json(), json!([]));

    let labelled = served.ask(Method::POST, "/v1/tenants").bearer_auth(&admin);
    let labelled = labelled.header("content-type", "application/yaml").header("tenure-label", "team=ml");
    served.send(labelled.body(large("delta"))).await;
    assert_eq!(subjects(&served, &admin, "label = 'team=ml'").await, named(&["delta"]));
}

#[tokio::test]
async fn many_executions_are_changed_only_after_a_preview() {
    let served = three().await;
    let admin = served.admin.clone();
    let batch = async |token: &str, body: Value| served.json_as(token, "/v1/executions:batch", body).await;
    let filter = "workflow = onboarding and open";

    let seen = batch(&admin, json!({ "verb": "cancel", "filter": filter, "dry_run": true })).await;
    assert_eq!((seen.status.as_u16(), &seen.body["count"]), (200, &json!(3)), "{}", seen.body);
    let digest = seen.body["digest"].clone();
    let many = batch(&admin, json!({ "verb": "cancel", "filter": filter, "dry_run": true, "cap": 2 })).await;
    assert_eq!((many.status.as_u16(), many.code()), (422, "batch.too_many"));
    assert!(many.body["detail"].as_str().unwrap().contains("more than 2"), "{}", many.body);
    let blind = batch(&admin, json!({ "verb": "cancel", "filter": filter, "reason": "x" })).await;
    assert_eq!((blind.status.as_u16(), blind.code()), (422, "batch.unseen"));
    let mute = batch(&admin, json!({ "verb": "cancel", "filter": filter, "digest": digest })).await;
    assert_eq!((mute.status.as_u16(), mute.code()), (422, "request.reason_missing"));
    let other =
        batch(&admin, json!({ "verb": "pause", "filter": filter, "digest": digest, "reason": "x" })).await;
    assert_eq!((other.status.as_u16(), other.code()), (409, "batch.changed"));
    assert_eq!(other.body["preview"]["count"], 3);
    for empty in ["", "tenant = nobody"] {
        let none = batch(&admin, json!({ "verb": "cancel", "filter": empty, "dry_run": true })).await;
        assert_eq!((none.status.as_u16(), none.code()), (422, "batch.empty"));
    }

    // A tenant's owner sees and changes only that tenant, within the owner's rights.
    let owner = served.user("olga", &["tenant_owner"], Some("beta")).await;
    let paused = batch(&owner, json!({ "verb": "pause", "filter": filter, "dry_run": true })).await;
    assert_eq!((paused.status.as_u16(), paused.code()), (403, "auth.forbidden"), "{}", paused.body);
    let own = batch(&owner, json!({ "verb": "cancel", "filter": filter, "dry_run": true })).await;
    assert_eq!((&own.body["count"], &own.body["first"][0]["tenant"]), (&json!(1), &json!("beta")));
    let mine = json!({ "verb": "cancel", "filter": filter, "digest": own.body["digest"], "reason": "no" });
    let begun = batch(&owner, mine).await;
    assert_eq!(begun.status, 202, "{}", begun.body);
    let at = begun.headers["location"].to_str().unwrap().to_owned();
    let ended = until_ended(&served, &at).await;
    assert_eq!((&ended["state"], &ended["done"]), (&json!("done"), &json!(1)), "{ended}");
    assert_eq!(subjects(&served, &admin, "open").await, named(&["acme", "gamma"]));

    let misspelt = served.run(&["executions", "list", "--filter", "workflow = onbording"]);
    assert!(misspelt.exit == 1 && misspelt.err.contains("did you mean onboarding?"), "{misspelt:?}");
    // From the command line: previewed, refused without confirmation, then done.
    let dry = served.run(&["executions", "cancel", "--filter", filter, "--dry-run"]);
    assert_eq!((dry.exit, dry.out.lines().count()), (0, 3), "{dry:?}");
    let act = ["executions", "cancel", "--filter", filter, "--reason", "tidy"];
    assert_eq!(served.run(&act).exit, 2, "no terminal for the confirmation");
    assert_eq!(served.run(&["executions", "cancel", "--filter", filter, "--yes"]).exit, 2, "no reason");
    let done = served.run(&[&act[..], &["--yes", "--rate", "100/s", "-o", "json"]].concat());
    assert_eq!(done.exit, 0, "{done:?}");
    let done = done.json();
    assert_eq!((&done["done"], &done["total"], &done["state"]), (&json!(2), &json!(2), &json!("done")));
    let shown = served.run(&["batch", "show", done["id"].as_str().unwrap(), "-o", "json"]).json();
    let items: Vec<_> = shown["items"].as_array().unwrap().iter().collect();
    assert!(items.len() == 2 && items.iter().all(|item| item["result"] == "done"), "{shown}");
    let one = items[0]["execution"].as_str().unwrap();
    let journal = served.get(&format!("/v1/executions/{one}/journal")).await.body.to_string();
    assert!(journal.contains(&format!("batch {}: tidy", done["id"].as_str().unwrap())), "{journal}");
    let foreign = served.get_as(&owner, &format!("/v1/batches/{}", done["id"].as_str().unwrap())).await;
    assert_eq!(foreign.status, 404);
    assert_eq!(served.get_as(&owner, "/v1/batches").await.body["items"].as_array().unwrap().len(), 1);
    assert_eq!(served.run(&["batch", "list", "-o", "json"]).json().as_array().unwrap().len(), 2);
}

async fn until_ended(served: &Served, at: &str) -> Value {
    for _ in 0..500 {
        let batch = served.get(at).await.body;
        if batch["state"] != "running" {
            return batch;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{at} did not end")
}

/// An unfinished batch continues after a kill and a restart; each execution gets its command once.
#[tokio::test]
async fn a_batch_continues_after_a_kill_and_repeats_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = Server::start(Path::new(TENURE), dir.path(), None);
    let caller = server.caller(&server.admin());
    let csv = "sn,cpu_milli,memory_mib,gpu,model\nn-0,128000,2097152,8,H100\n";
    let import =
        reqwest::Client::new().post(format!("{}/v1/fleet:import?cluster=eu-1&region=eu", server.url()));
    import.bearer_auth(server.admin()).header("content-type", "text/csv").body(csv).send().await.unwrap();
    for n in 0..24 {
        let body = json!({
            "name": format!("tenant-{n:02}"),
            "tenant": { "tier": "enterprise", "isolation": "dedicated", "data_residency": "eu-only",
                        "allow_preemption": false, "allow_gpu_sharing": false },
            "entitlement": { "gpu_model": "H100", "gpus": 8, "region": "eu", "from": "2026-01-01", "to": "2030-01-01" },
        });
        caller.call(Method::POST, "/v1/tenants", None, Some(body)).await;
    }
    let filter = "open and workflow = onboarding";
    let ask = |more: Value| {
        let mut ask = json!({ "verb": "pause", "filter": filter, "reason": "freeze", "rate": 40 });
        ask.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        ask
    };
    let begin =
        async |more: Value| caller.call(Method::POST, "/v1/executions:batch", None, Some(ask(more))).await.1;
    let seen = begin(json!({ "dry_run": true })).await;
    let total = seen["count"].as_u64().unwrap();
    assert!(total > 10, "{seen}");
    let batch = begin(json!({ "digest": seen["digest"] })).await;
    let at = format!("/v1/batches/{}", batch["id"].as_str().unwrap());

    let mut kills = 0;
    let ended = loop {
        let now = caller.get(&at).await;
        if now["state"] != "running" {
            break now;
        }
        if now["next"].as_u64().unwrap() > 5 * (kills + 1) && kills < 2 {
            server.kill();
            server.restart();
            kills += 1;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };

    assert!(kills > 0 && ended["state"] == "done", "{ended}");
    assert_eq!(ended["next"].as_u64().unwrap(), total);
    for item in caller.all(&format!("{at}/items")).await {
        let journal =
            caller.get(&format!("/v1/executions/{}/journal", item["execution"].as_str().unwrap())).await;
        let events =
            journal["items"].as_array().unwrap().iter().filter(|entry| entry["event"] == "pause_requested");
        assert_eq!(events.count(), usize::from(item["result"] == "done"), "{item}");
    }
}

#[test]
fn every_field_of_the_filter_language_is_documented() {
    let page = page("search.md");
    let documented: Vec<_> =
        page.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let fields: Vec<_> = Field::VARIANTS.iter().map(|field| field.name()).collect();
    let table: Vec<_> = documented.iter().copied().filter(|name| !name.contains(' ')).collect();
    assert_eq!(table, fields);
}

/// The page quotes the actual answers to invalid filters.
#[test]
fn the_documented_answers_match_the_server() {
    let page = page("search.md");
    let section = page.split("## Errors").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows: Vec<_> =
        section.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | `")).collect();
    assert!(rows.len() >= 5, "{rows:?}");
    for (filter, answer) in rows {
        let answer = answer.trim_end_matches(" |").trim_end_matches('`');
        let misread = engine::parse_filter(filter, store::Timestamp(0)).unwrap_err().to_string();
        let beginning = answer.split('…').next().unwrap();
        assert!(misread.starts_with(beginning), "{filter}: {misread}");
    }
    for block in page.split("--filter '").skip(1) {
        let filter = block.split('\'').next().unwrap();
        if filter != "…" {
            engine::parse_filter(filter, store::Timestamp(0))
                .unwrap_or_else(|misread| panic!("{filter}: {misread}"));
        }
    }
}
