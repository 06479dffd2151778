//! Keys of clusters over HTTP and on the command line: listed, rotated, and revoked.

use crate::{
    domain_http::{facts, with_its_own, with_sites},
    served::{Answer, Served},
};
use reqwest::Method;
use serde_json::{Value, json};

/// Pushes facts of a cluster under `key`.
async fn push(served: &Served, cluster: &str, key: &str) -> (u16, String) {
    let answer = served.json_as(key, &format!("/v1/clusters/{cluster}/facts"), facts(cluster)).await;
    (answer.status.as_u16(), answer.code().to_owned())
}

const TAKEN: (u16, String) = (200, String::new());

fn refused() -> (u16, String) {
    (401, "auth.bad_token".into())
}

async fn keyed(served: &Served, path: &str, key: &str, body: &Value) -> Answer {
    let request = served.ask(Method::POST, path).bearer_auth(&served.admin).header("idempotency-key", key);
    served.send(request.header("content-type", "application/json").body(body.to_string())).await
}

/// Returns the audit entries of requests to `at`.
async fn on_record(served: &Served, at: &str) -> Vec<Value> {
    let told = served.get("/v1/audit?tenant=-&event=asked&limit=1000").await.body;
    let items = told["items"].as_array().unwrap_or_else(|| panic!("{told}")).clone();
    items.into_iter().filter(|entry| entry["subject"] == at).collect()
}

#[tokio::test]
async fn the_next_key_of_a_cluster_is_valid_beside_the_previous_one_and_no_other_key_changes() {
    let served = with_sites().await;
    let (cluster, first) = with_its_own(&served, "own-1", "uno").await;
    let (other, others) = with_its_own(&served, "own-2", "duo").await;
    let at = format!("/v1/clusters/{cluster}/key");
    let seen = served.get(&at).await;
    assert_eq!(
        (&seen.body["version"], &seen.body["state"]),
        (&json!(1), &json!("in_force")),
        "{}",
        seen.body
    );
    assert_eq!(
        (&seen.body["earlier"], &seen.body["issued_by"]),
        (&json!(null), &json!(null)),
        "{}",
        seen.body
    );
    assert!(seen.body.get("hash").is_none() && seen.body.get("key").is_none(), "{}", seen.body);

    let ran = served.run(&["cluster", "key", "rotate", &cluster, "--overlap", "2s", "--reason", "it is old"]);
    assert_eq!(ran.exit, 0, "{ran:?}");
    let second = ran.out.trim().to_owned();
    assert!(second.starts_with("tn_") && second.lines().count() == 1, "the key alone: {ran:?}");
    assert!(ran.err.contains("valid until"), "{ran:?}");
    assert_eq!(push(&served, &cluster, &first).await, TAKEN, "the one before holds beside it");
    assert_eq!(push(&served, &cluster, &second).await, TAKEN);
    assert_eq!(push(&served, &other, &others).await, TAKEN);
    let foreign = (403, "auth.cross_cluster_attempt".to_owned());
    assert_eq!(push(&served, &other, &first).await, foreign, "the owner of the key is known");

    let third = served.json_as(&served.admin, &format!("{at}:rotate"), json!({})).await;
    assert_eq!((third.status.as_u16(), third.code()), (409, "cluster_key.overlaps"), "{}", third.body);

    tokio::time::sleep(std::time::Duration::from_millis(2_100)).await;
    assert_eq!(push(&served, &cluster, &first).await, refused(), "the key has expired");
    assert_eq!(push(&served, &cluster, &second).await, TAKEN);
    let seen = served.run(&["cluster", "key", "show", &cluster, "-o", "json"]).json();
    assert_eq!((&seen["version"], &seen["issued_by"]), (&json!(2), &json!("admin")), "{seen}");
    assert_eq!(seen["earlier"], json!(null), "{seen}");

    let told = on_record(&served, &format!("{at}:rotate")).await;
    assert_eq!(told.len(), 1, "{told:#?}");
    assert_eq!((&told[0]["actor"], &told[0]["reason"]), (&json!("admin"), &json!("it is old")), "{told:#?}");
    assert!(crate::served::files_with(served.dir.path(), &second).is_empty(), "no secret is stored");
}

#[tokio::test]
async fn a_repeated_rotation_with_the_same_idempotency_key_creates_no_second_key() {
    let served = with_sites().await;
    let (cluster, first) = with_its_own(&served, "own-1", "uno").await;
    let at = format!("/v1/clusters/{cluster}/key:rotate");
    let at_once = json!({ "overlap": "0" });
    let issued = keyed(&served, &at, "k-1", &at_once).await;
    assert_eq!((issued.status.as_u16(), &issued.body["version"]), (200, &json!(2)), "{}", issued.body);
    let second = issued.body["key"].as_str().unwrap().to_owned();

    let again = keyed(&served, &at, "k-1", &at_once).await;
    assert_eq!((again.status.as_u16(), again.code()), (409, "idempotency.secret_shown"), "{}", again.body);
    assert!(again.body.get("key").is_none(), "{}", again.body);
    let other = keyed(&served, &at, "k-1", &json!({ "overlap": "1h" })).await;
    assert_eq!((other.status.as_u16(), other.code()), (422, "idempotency.key_reused"), "{}", other.body);

    assert_eq!(push(&served, &cluster, &first).await, refused(), "an overlap of 0 ends it at once");
    assert_eq!(push(&served, &cluster, &second).await, TAKEN);
    assert_eq!(served.get(&format!("/v1/clusters/{cluster}/key")).await.body["version"], 2);
    for (wrong, why) in [("8d", "7 days"), ("soon", "not a duration")] {
        let answer = served.json_as(&served.admin, &at, json!({ "overlap": wrong })).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (422, "document.invalid"), "{}", answer.body);
        let said = answer.body["errors"][0].to_string();
        assert!(said.contains("/overlap") && said.contains(why), "{said}");
    }
    assert_eq!(served.get("/v1/clusters/nowhere/key").await.code(), "resource.not_found");
}

/// Each registered cluster pushes its facts with its own key; no platform token is on its nodes.
#[tokio::test]
async fn a_shared_cluster_has_a_key_from_its_registration() {
    let served = with_sites().await;
    let undrawn = served.get("/v1/clusters/eu-1/key").await.body;
    assert_eq!((&undrawn["state"], &undrawn["tenant"]), (&json!("not_drawn"), &json!(null)), "{undrawn}");
    let file = served.dir.path().join("eu-1.key");
    let drawn = served.run(&["cluster", "key", "rotate", "eu-1", "--token-file", file.to_str().unwrap()]);
    assert_eq!(drawn.exit, 0, "{drawn:?}");
    let first = std::fs::read_to_string(&file).unwrap().trim().to_owned();
    assert!(
        first.starts_with("tn_") && !drawn.out.contains(&first) && !drawn.err.contains(&first),
        "{drawn:?}"
    );

    let none = json!({ "nodes": {} });
    let facts_of = |cluster: &str| format!("/v1/clusters/{cluster}/facts");
    assert_eq!(served.json_as(&first, &facts_of("eu-1"), none.clone()).await.status, 200);
    let (other, _) = with_its_own(&served, "own-1", "uno").await;
    let crossed = served.json_as(&first, &facts_of(&other), none.clone()).await;
    assert_eq!(crossed.code(), "auth.cross_cluster_attempt", "{}", crossed.body);
    assert_eq!(
        served.get_as(&first, "/v1/tenants").await.code(),
        "auth.forbidden",
        "it gives no other access"
    );

    let second = served.run(&["cluster", "key", "rotate", "eu-1", "--overlap", "0"]).out.trim().to_owned();
    assert_eq!(served.json_as(&first, &facts_of("eu-1"), none.clone()).await.code(), "auth.bad_token");
    assert_eq!(served.json_as(&second, &facts_of("eu-1"), none).await.status, 200);
}

#[tokio::test]
async fn the_incident_of_a_leaked_key_revokes_it_and_issues_the_next_and_changes_no_other_key() {
    let served = with_sites().await;
    let (cluster, first) = with_its_own(&served, "own-1", "uno").await;
    let (other, others) = with_its_own(&served, "own-2", "duo").await;
    let leak = json!({ "kind": "key_leak", "cluster": cluster, "evidence": "it stood in a log" });
    let reported = served.json_as(&served.admin, "/v1/incidents", leak).await;
    assert_eq!(reported.status, 202, "{}", reported.body);

    let asks = served.asked(&reported.id()).await;

    let settled = asks["data"]["settled"].as_str().unwrap_or_else(|| panic!("{asks:#}"));
    assert!(settled.contains(&format!("`tenure cluster key rotate {cluster}`")), "{settled}");
    assert_eq!(push(&served, &cluster, &first).await, refused());
    let key = served.get(&format!("/v1/clusters/{cluster}/key")).await.body;
    assert_eq!(key["state"], "revoked", "{key}");
    let ran = served.run(&["cluster", "key", "rotate", &cluster]);
    assert!(ran.exit == 0 && ran.err.contains("no earlier key is valid"), "{ran:?}");
    let second = ran.out.trim();
    assert_eq!(push(&served, &cluster, second).await, TAKEN);
    assert_eq!(push(&served, &cluster, &first).await, refused(), "a leaked key has no overlap");
    assert_eq!(push(&served, &other, &others).await, TAKEN);

    let at = format!("/v1/clusters/{cluster}/key:revoke");
    let mute = served.json_as(&served.admin, &at, json!({ "reason": " " })).await;
    assert_eq!((mute.status.as_u16(), mute.code()), (422, "request.reason_missing"), "{}", mute.body);
    let ran = served.run(&["cluster", "key", "revoke", &cluster, "--reason", "again", "-o", "json"]);
    assert_eq!((&ran.json()["state"], &ran.json()["revoked_by"]), (&json!("revoked"), &json!("admin")));
    assert_eq!(push(&served, &cluster, second).await, refused());
    let told = on_record(&served, &at).await;
    assert_eq!((told.len(), &told[0]["reason"]), (1, &json!("again")), "{told:#?}");
}
