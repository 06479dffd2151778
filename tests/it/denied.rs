//! Refusals are audited: user, address, request, reason and count.

use crate::{
    domain_http::items,
    served::{Served, files_with, large, small},
};
use reqwest::Method;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

/// An expected refusal: the user, the request as in the table of routes, and the code.
pub(crate) type Met = (String, String, String);

/// Returns every audit entry of a refusal, read with `token`.
pub(crate) async fn entries(served: &Served, token: &str) -> Vec<Value> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let path = format!("/v1/audit?event=access.denied&limit=1000{cursor}");
        let page = served.get_as(token, &path).await;
        all.extend(items(&page).iter().cloned());
        let Some(next) = page.body["next"].as_str() else { return all };
        cursor = format!("&cursor={}", next.replace('/', "%2F"));
    }
}

fn met(entry: &Value) -> Met {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    (text(&entry["actor"]), text(&entry["denied"]["asked"]), text(&entry["outcome"]))
}

/// Returns the entries once `holds` is true: they are written and sealed with a delay.
async fn until(served: &Served, holds: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    for _ in 0..200 {
        let found = entries(served, &served.admin).await;
        if holds(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{:#?}", entries(served, &served.admin).await);
}

/// Fails unless each of these is in the audit within a deadline.
pub(crate) async fn are_on_record(served: &Served, all: BTreeSet<Met>) {
    assert!(!all.is_empty(), "the list is empty");
    let mut missing = all.clone();
    for _ in 0..300 {
        let found: BTreeSet<Met> = entries(served, &served.admin).await.iter().map(met).collect();
        missing = all.difference(&found).cloned().collect();
        if missing.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{} of {} are not on record: {missing:#?}", missing.len(), all.len());
}

fn find<'a>(entries: &'a [Value], who: &str, asked: &str, code: &str) -> &'a Value {
    let wanted: Met = (who.into(), asked.into(), code.into());
    entries.iter().find(|entry| met(entry) == wanted).unwrap_or_else(|| panic!("{wanted:?}: {entries:#?}"))
}

/// One of each: no token, an unknown token, a revoked one, a missing role, another tenant, a hidden resource.
#[tokio::test]
async fn a_refusal_is_recorded_with_caller_request_address_and_reason() {
    let served = Served::with_nodes().await;
    let auditor = served.user("otto", &["auditor"], None).await;
    let gone = served.user("gone", &["admin"], None).await;
    let owner = served.user("olga", &["tenant_owner", "auditor"], Some("acme")).await;
    let hidden = served.onboard(&large("zeta")).await;
    served.asked(&hidden).await;
    let none = "tn_0011223344556677_0011223344556677001122334455667700112233445566770011223344556677";
    served.send(served.ask(Method::DELETE, "/v1/users/gone").bearer_auth(&served.admin)).await;

    let ask = |path: &str| served.ask(Method::GET, path).header("x-request-id", "mine-1");
    served.send(ask("/v1/tenants")).await;
    served.get_as(none, "/v1/tenants").await;
    assert_eq!(served.get_as(&gone, "/v1/nodes").await.status, 401);
    let removed = served.send(served.ask(Method::DELETE, "/v1/users/admin").bearer_auth(&auditor)).await;
    assert_eq!(removed.status, 403);
    assert_eq!(served.get_as(&owner, "/v1/store").await.status, 403);
    let looks = served.user("odile", &["auditor"], Some("acme")).await;
    let within = served.send(served.ask(Method::POST, "/v1/offboardings").bearer_auth(&looks)).await;
    assert_eq!(within.code(), "auth.forbidden");
    let path = format!("/v1/executions/{hidden}");
    assert_eq!(served.get_as(&owner, &path).await.status, 404);
    let unreal = "/v1/executions/00000000-0000-7000-8000-000000000000";
    assert_eq!(served.get_as(&owner, unreal).await.status, 404);

    let told = until(&served, |found| found.len() >= 7).await;
    let entry = find(&told, "unknown", "GET /v1/tenants", "auth.no_token");
    assert_eq!(
        (&entry["denied"]["from"], &entry["denied"]["request"]),
        (&json!("127.0.0.1"), &json!("mine-1"))
    );
    let entry = find(&told, "unknown", "GET /v1/tenants", "auth.bad_token");
    assert_eq!(entry["denied"]["token"], "0011223344556677");
    let entry = find(&told, "unknown", "GET /v1/nodes", "auth.bad_token");
    assert_eq!(
        entry["denied"]["token"].as_str(),
        gone.split('_').nth(1),
        "the token is revoked; its id identifies it"
    );
    let entry = find(&told, "otto", "DELETE /v1/users/{name}", "auth.forbidden");
    assert_eq!((&entry["subject"], &entry["denied"]["times"]), (&json!("/v1/users/admin"), &json!(1)));
    assert!(entry["reason"].as_str().unwrap().contains("manage users"), "{entry}");
    let says =
        "otto was denied DELETE /v1/users/{name} at /v1/users/admin, asked from 127.0.0.1: auth.forbidden";
    assert_eq!(entry["says"], says);
    find(&told, "olga", "GET /v1/store", "auth.foreign_tenant");
    let entry = find(&told, "olga", "GET /v1/executions/{id}", "resource.not_found");
    assert_eq!((&entry["subject"], &entry["tenant"]), (&json!(path), &json!("")));
    assert_eq!(told.len(), 7, "a missing resource is no refusal: {told:#?}");

    let own = entries(&served, &owner).await;
    assert_eq!(own.len(), 1, "the caller does not see refusals of hidden or foreign resources: {own:#?}");
    assert_eq!((&own[0]["actor"], &own[0]["tenant"]), (&json!("odile"), &json!("acme")));
    for token in [none, &gone, &auditor] {
        let secret = token.rsplit('_').next().unwrap();
        assert_eq!(files_with(served.dir.path(), secret), Vec::<String>::new());
    }
    let listed = served.run(&["audit", "list", "--event", "access.denied"]);
    assert!(
        listed.exit == 0 && listed.out.contains("otto") && !listed.out.contains("POST /v1/users"),
        "{listed:?}"
    );
    let metrics = served.get("/metrics").await.body.to_string();
    assert!(metrics.contains("tenure_access_denied_total{code=\\\"auth.forbidden\\\"} 2"), "{metrics}");
    assert!(!metrics.contains("resource.not_found"), "a count would reveal that it exists");
    let verified = served.dir.path().join("platform.jsonl");
    let exported = served.run(&["audit", "export", verified.to_str().unwrap()]);
    assert_eq!(exported.exit, 0, "{exported:?}");
    let verified = served.run(&["audit", "verify", verified.to_str().unwrap()]);
    assert_eq!(verified.exit, 0, "{verified:?}");
}

/// Fifty refusals make two entries: the first, and the rest with a count, which a stopping server writes before it ends.
#[tokio::test]
async fn repeated_refusals_are_one_more_entry_and_a_stop_loses_none() {
    let served = Served::start();
    let auditor = served.user("otto", &["auditor"], None).await;
    for n in 0..50 {
        let path = format!("/v1/users/user-{n}");
        let answer = served.send(served.ask(Method::DELETE, &path).bearer_auth(&auditor)).await;
        assert_eq!(answer.status, 403);
    }
    until(&served, |found| found.len() == 1).await;
    let (dir, admin) = served.kept_after(Signal::TERM);

    let again = Served::again(dir, admin);
    let told = until(&again, |found| found.len() > 1).await;
    let times: Vec<_> = told.iter().map(|entry| entry["denied"]["times"].as_u64().unwrap()).collect();
    assert_eq!(times, [1, 49], "{told:#?}");
    assert!(told[1]["says"].as_str().unwrap().contains("; 49 times, from "), "{}", told[1]);
}

/// The refusal does not wait for its audit entry.
#[tokio::test]
async fn a_refusal_by_a_server_with_a_held_store_is_recorded() {
    let served = Served::start();
    let auditor = served.user("otto", &["auditor"], None).await;
    let held = served.json_as(&served.admin, "/v1/store:hold", json!({ "reason": "looked at" })).await;
    assert_eq!(held.status, 200, "{}", held.body);
    let refused = served.send(served.ask(Method::DELETE, "/v1/users/x").bearer_auth(&auditor)).await;
    assert_eq!(refused.code(), "auth.forbidden");
    until(&served, |found| found.len() == 1).await;
}

/// Only wrong tokens are delayed; a valid token from the same address is not.
#[tokio::test]
async fn a_caller_that_guesses_tokens_is_delayed_and_other_callers_are_not() {
    let served = Served::start_with(&[("TENURE_HTTP_GUESSES", "5")]);
    let guess = |n: u32| format!("tn_0011223344556677_{n:064x}");
    let began = Instant::now();
    for n in 0..5 {
        assert_eq!(served.get_as(&guess(n), "/v1/tenants").await.status, 401);
    }
    for _ in 0..20 {
        assert_eq!(served.get_as(&guess(4), "/v1/tenants").await.status, 401);
    }
    assert!(began.elapsed() < Duration::from_secs(1), "an old token is not a guess");

    let began = Instant::now();
    for n in 10..12 {
        let late = guess(n);
        let (slow, quick) = tokio::join!(served.get_as(&late, "/v1/tenants"), served.get("/v1/tenants"));
        assert_eq!((slow.status.as_u16(), quick.status.as_u16()), (401, 200));
    }
    assert!(began.elapsed() >= Duration::from_millis(1_900), "{:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(served.get("/v1/tenants").await.status, 200);
    assert!(began.elapsed() < Duration::from_millis(500));
}

/// Killed; entries older than the write delay are stored.
#[tokio::test]
async fn a_killed_server_keeps_every_first_refusal_that_is_older_than_a_moment() {
    let served = Served::with_nodes().await;
    let owner = served.user("olga", &["tenant_owner"], Some("acme")).await;
    let there = served.onboard(&small("zeta")).await;
    served.ended(&there).await;
    assert_eq!(served.get_as(&owner, "/v1/tenants/zeta").await.status, 404);
    tokio::time::sleep(Duration::from_secs(3)).await;
    let (dir, admin) = served.killed();
    let again = Served::again(dir, admin);
    let told = until(&again, |found| !found.is_empty()).await;
    find(&told, "olga", "GET /v1/tenants/{id}", "resource.not_found");
}
