//! `Idempotency-Key`: an answered request is not performed twice, and a retryable one can be repeated. Against a real
//! server.

use crate::{
    approvals::soon,
    domain_http::{ACME, with_acme},
    http::YAML,
    served::{Served, large, small},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use store::{Commit, Embedded, Key, Options, Put, Store as _};

/// An answer that asks for a retry is not stored for its key.
#[tokio::test]
async fn an_idempotency_key_that_was_answered_with_retry_works_on_the_retry() {
    let served = Served::with_nodes().await;
    let post = async |key: &str, path: &str, body: String| {
        let request = served.ask(Method::POST, path).bearer_auth(&served.admin);
        let request = request.header("idempotency-key", key).header("content-type", YAML);
        served.send(request.body(body)).await
    };
    let first = served.onboard(&large("acme")).await;
    served.asked(&first).await;
    let busy = post("k1", "/v1/tenants", small("acme")).await;
    assert_eq!((busy.status.as_u16(), busy.code()), (409, "execution.busy"), "{}", busy.body);
    let wrong = post("k2", "/v1/tenants", small("acme").replace("8", "many")).await;
    assert_eq!(wrong.status, 422, "{}", wrong.body);
    served.json_as(&served.admin, &format!("/v1/executions/{first}:cancel"), json!({})).await;
    served.ended(&first).await;

    let again = post("k1", "/v1/tenants", small("acme")).await;
    let still = post("k2", "/v1/tenants", small("acme").replace("8", "many")).await;

    assert_eq!(again.status, 202, "{}", again.body);
    assert!(!again.headers.contains_key("idempotency-replayed"));
    assert_eq!(
        (still.status.as_u16(), &still.headers["idempotency-replayed"]),
        (422, &"true".parse().unwrap())
    );
}

#[tokio::test]
async fn concurrent_requests_with_one_idempotency_key_take_effect_once() {
    let served = Served::start();
    served.user("olga", &["platform_ops"], None).await;
    let body = json!({ "to": "olga", "until": soon(), "reason": "on leave" });
    let ask = async || {
        let request = served.ask(Method::POST, "/v1/delegations").bearer_auth(&served.admin);
        served.send(request.header("idempotency-key", "k1").json(&body)).await
    };
    let (a, b, c, d) = tokio::join!(ask(), ask(), ask(), ask());
    for answer in [a, b, c, d] {
        let status = answer.status.as_u16();
        assert!([201, 409].contains(&status), "{}", answer.body);
        if status == 409 {
            assert_eq!(answer.code(), "idempotency.in_progress");
            assert_eq!(answer.headers["retry-after"], "1");
        }
    }
    let made = served.get("/v1/delegations").await;
    assert_eq!(made.body["items"].as_array().unwrap().len(), 1, "{}", made.body);
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    u64::try_from(now.as_millis()).unwrap()
}

/// Replaces the entry of a key by the entry that a server leaves if it is killed while it answers.
async fn leave_claimed(dir: &Path, key: &str, until: u64) {
    let store = Embedded::open(&dir.join("tenure-data/store"), Options::default()).unwrap().store;
    let key = Key::new("idempotency", key);
    let lies = store.document(&key).await.unwrap().unwrap();
    let lies: Value = serde_json::from_slice(&lies.body).unwrap();
    let (id, fingerprint) = (&lies["id"], &lies["fingerprint"]);
    let claim = json!({ "id": id, "fingerprint": fingerprint, "claim": "of the dead", "until": until });
    let put = Put { key, body: Some(claim.to_string().into_bytes()) };
    store.commit(Commit { documents: vec![put], ..Commit::default() }).await.unwrap();
    // Only a closed store frees its folder at once.
    store.close().await.unwrap();
}

#[tokio::test]
async fn a_claim_of_a_killed_server_blocks_others_until_it_expires() {
    let served = Served::start();
    let ask = async |served: &Served| {
        let request = served.ask(Method::POST, "/v1/groups").bearer_auth(&served.admin);
        let request = request.header("idempotency-key", "k1");
        served.send(request.json(&json!({ "name": "watch" }))).await
    };
    assert_eq!(ask(&served).await.status, 201);
    let removed = served.ask(Method::DELETE, "/v1/groups/watch").bearer_auth(&served.admin);
    assert_eq!(served.send(removed).await.status, 204);

    let (dir, admin) = served.killed();
    leave_claimed(dir.path(), "admin/k1", now() + 600_000).await;
    let served = Served::again(dir, admin);
    let kept_out = ask(&served).await;
    let (dir, admin) = served.killed();
    leave_claimed(dir.path(), "admin/k1", now() - 1).await;
    let served = Served::again(dir, admin);
    let taken_over = ask(&served).await;
    let again = ask(&served).await;

    assert_eq!((kept_out.status.as_u16(), kept_out.code()), (409, "idempotency.in_progress"));
    assert_eq!(kept_out.headers["retry-after"], "1");
    assert_eq!(taken_over.status, 201, "{}", taken_over.body);
    assert_eq!(
        (again.status.as_u16(), &again.headers["idempotency-replayed"]),
        (201, &"true".parse().unwrap())
    );
}

/// The answer is lost with the server; the effect is not.
#[tokio::test]
async fn a_schedule_that_is_triggered_again_after_a_crash_fires_once() {
    let served = with_acme().await;
    let overdue = json!({ "tenant": ACME, "resource": "gpu/H100", "overdue": true });
    let schedule = json!({
        "cron": "30 2 1 1 *", "zone": "UTC", "skipped_hour": "shift", "repeated_hour": "last",
        "start": { "workflow": "reclaim", "data": overdue },
    });
    let set = served.ask(Method::PUT, "/v1/schedules/nightly").bearer_auth(&served.admin).json(&schedule);
    assert_eq!(served.send(set).await.status, 201);
    let trigger = async |served: &Served| {
        let request = served.ask(Method::POST, "/v1/schedules/nightly:trigger").bearer_auth(&served.admin);
        served.send(request.header("idempotency-key", "k1").json(&json!({}))).await
    };

    let first = trigger(&served).await;
    let (dir, admin) = served.killed();
    leave_claimed(dir.path(), "admin/k1", now() - 1).await;
    let served = Served::again(dir, admin);
    let again = trigger(&served).await;

    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 202), "{} {}", first.body, again.body);
    assert_eq!(again.body["nominal"], first.body["nominal"]);
    let all = served.get("/v1/schedules/nightly/occurrences").await;
    assert_eq!(all.body["items"].as_array().unwrap().len(), 1, "{}", all.body);
}

/// The client has disconnected, and repeats the request.
#[tokio::test]
async fn an_interrupted_request_is_completed_and_its_answer_is_stored() {
    let served = Served::start();
    let rows: String = (0..3_000).map(|n| format!("far-{n},96000,786432,8,H100\n")).collect();
    let nodes = format!("sn,cpu_milli,memory_mib,gpu,model\n{rows}");
    let import = || {
        let request = served.ask(Method::POST, "/v1/fleet:import?cluster=eu-1&region=eu");
        let request = request.bearer_auth(&served.admin).header("idempotency-key", "k1");
        request.header("content-type", "text/csv").body(nodes.clone())
    };
    _ = import().timeout(Duration::from_millis(30)).send().await;

    let answer = loop {
        let answer = served.send(import()).await;
        if answer.code() != "idempotency.in_progress" {
            break answer;
        }
    };

    assert_eq!(answer.status, 200, "{}", answer.body);
    assert_eq!(served.get("/v1/nodes?limit=1000").await.body["items"].as_array().unwrap().len(), 1_000);
}
