//! Two servers on one database.

use super::options;
use crate::{
    approvals::soon,
    domain_http::items,
    served::{NODES, Ran, Served, large, small, tenure},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{path::Path, time::Duration};
use tests::{processes::World, under_test::shifted};

fn variables(options: &store::postgres::PostgresOptions, name: &str) -> Vec<(&'static str, String)> {
    vec![
        ("TENURE_STORE_URL", options.url.clone()),
        ("TENURE_STORE_SCHEMA", options.schema.clone()),
        ("TENURE_STORE_NAME", name.to_owned()),
        ("TENURE_STORE_CONNECTIONS", "4".to_owned()),
        ("TENURE_ENGINE_LEASE", "1s".to_owned()),
        ("TENURE_SIMULATED_OBSERVE", "false".to_owned()),
    ]
}

pub(super) fn start(options: &store::postgres::PostgresOptions, name: &str, more: &[(&str, &str)]) -> Served {
    let own = variables(options, name);
    let mut all: Vec<(&str, &str)> = own.iter().map(|(key, value)| (*key, value.as_str())).collect();
    all.extend_from_slice(more);
    Served::start_with(&all)
}

/// S08. Requested at one server and approved at the other; work of a killed server is completed by the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_continues_the_work_of_another() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();
    let world = World::start(Path::new(env!("CARGO_BIN_EXE_world")), dir.path());
    let platform: &[(&str, &str)] = &[("TENURE_PLATFORM", &world.url)];
    let one = start(&options, "one", platform);
    let mut two = start(&options, "two", platform);
    // The first server made the first admin, for both.
    two.admin.clone_from(&one.admin);
    one.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let olga = two.user("olga", &["platform_ops", "capacity_manager", "finance", "security"], None).await;
    let id = one.onboard(&large("acme")).await;
    one.asked(&id).await;

    let approval = items(&two.get("/v1/approvals").await)[0]["id"].as_str().unwrap().to_owned();
    let digest = two.get(&format!("/v1/approvals/{approval}")).await.body["digest"].clone();
    let yes = json!({ "digest": digest, "reason": "order 4711" });
    let approved = two.json_as(&olga, &format!("/v1/approvals/{approval}:approve"), yes).await;
    assert!(approved.status.is_success(), "{}", approved.body);
    let listed = two.run(&["--token", &one.admin, "engines", "-o", "json"]);
    let engines = listed.json();
    let names: Vec<_> = items_of(&engines).iter().map(|engine| engine["name"].clone()).collect();
    assert_eq!(names, ["one", "two"], "{listed:?}");
    let other = two.onboard(&small("zeta")).await;
    let (_dir, admin) = one.killed();

    two.admin = admin;
    for (id, name) in [(&id, "acme"), (&other, "zeta")] {
        let ended = two.ended(id).await;
        assert_eq!(ended["reason"], "completed", "{name}: {ended}");
    }
    assert_eq!(items(&two.get("/v1/tenants").await).len(), 2);
}

/// One of three simultaneous requests does the work; the others get its answer or must retry.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idempotency_key_takes_effect_once_on_two_concurrent_servers() {
    let Some(options) = options() else { return };
    let one = start(&options, "one", &[]);
    let mut two = start(&options, "two", &[]);
    two.admin.clone_from(&one.admin);
    one.user("olga", &["platform_ops"], None).await;
    let ask = async |served: &Served, key: &str, body: &Value| {
        let request = served.ask(Method::POST, "/v1/delegations").bearer_auth(&one.admin);
        served.send(request.header("idempotency-key", key).json(body)).await
    };
    for round in 0..10 {
        let key = format!("k{round}");
        // Each round sends a different request: an identical one would be refused by its content.
        let body = json!({ "to": "olga", "until": soon(), "reason": "on leave" });
        let (a, b, c) = tokio::join!(ask(&one, &key, &body), ask(&two, &key, &body), ask(&two, &key, &body));
        for answer in [a, b, c] {
            let in_progress = answer.status == 409 && answer.code() == "idempotency.in_progress";
            assert!(answer.status == 201 || in_progress, "{}", answer.body);
        }
    }
    assert_eq!(items(&two.get("/v1/delegations").await).len(), 10);
}

fn items_of(listed: &serde_json::Value) -> Vec<serde_json::Value> {
    listed.as_array().or_else(|| listed["items"].as_array()).cloned().unwrap_or_default()
}

/// A command upgrades a schema, and also lists what is missing; errors in the settings are named.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_is_checked_and_migrated() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();
    let run = |url: &str, arguments: &[&str]| {
        let mut command = tenure(dir.path());
        command.args(arguments).env("TENURE_STORE_URL", url).env("TENURE_STORE_SCHEMA", &options.schema);
        Ran::of(&mut command)
    };

    let before = run(&options.url, &["store", "migrate", "--check"]);
    assert_eq!(before.exit, 1, "{before:?}");
    assert!(before.out.contains("applied: none; missing: 1"), "{before:?}");
    let made = run(&options.url, &["store", "migrate"]);
    assert_eq!(made.exit, 0, "{made:?}");
    let after = run(&options.url, &["store", "migrate", "--check"]);
    assert!(after.exit == 0 && after.out.contains("missing: none"), "{after:?}");

    let secret = run("postgres://tenure:hunter2@127.0.0.1/x", &["store", "migrate", "--check"]);
    assert_eq!(secret.exit, 2);
    assert!(secret.err.contains("PGPASSFILE") && !secret.err.contains("hunter2"), "{secret:?}");
    let other = run("mysql://127.0.0.1/x", &["store", "migrate", "--check"]);
    assert!(other.exit == 2 && other.err.contains("store.url"), "{other:?}");
}

/// Two servers with different clocks would judge leases and deadlines differently. A server whose clock is too far off does nothing,
/// and continues once its clock is right.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_whose_clock_differs_from_the_database_refuses_work_until_they_agree() {
    let Some(options) = options() else { return };
    let dir = tempfile::tempdir().unwrap();
    let clock = dir.path().join("clock");
    std::fs::write(&clock, "0").unwrap();
    let file = clock.to_str().unwrap();
    let server =
        start(&options, "one", &[("UNDER_TEST", "shifted"), (shifted::FILE, file), (shifted::NOTICES, "1")]);
    let skewed = async || {
        let asked = json!({ "reason": "a test" });
        server.json_as(&server.admin, "/v1/clock:confirm", asked).await.body["code"] == "clock.skewed"
    };
    assert!(!skewed().await);
    for by in ["40000", "-40000"] {
        for (shift, refuses) in [(by, true), ("20000", false)] {
            std::fs::write(&clock, shift).unwrap();
            let looked = async {
                while skewed().await != refuses {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            };
            tokio::time::timeout(Duration::from_secs(60), looked).await.expect(shift);
        }
    }
}
