//! `If-Match`: a resource is changed only in the version that was read. Routes that compare nothing reject the header. Against a real
//! server.

use crate::{
    approvals::soon,
    domain_http::{ACME, with_acme},
    served::{Answer, Served, large},
};
use reqwest::{Method, header::ETAG};
use serde_json::{Value, json};

async fn bound(served: &Served, method: Method, path: &str, tag: &str, body: Value) -> Answer {
    let asked = served.ask(method, path).bearer_auth(&served.admin).header("if-match", tag);
    served.send(asked.json(&body)).await
}

async fn tag(served: &Served, path: &str) -> String {
    let shown = served.get(path).await;
    assert_eq!(shown.status, 200, "{path}: {}", shown.body);
    let tag = shown.headers.get(ETAG).unwrap_or_else(|| panic!("{path} has no ETag"));
    tag.to_str().unwrap().to_owned()
}

/// A change: the address that shows it, a conflicting change by another user, and the conditional request.
struct Change {
    shown: &'static str,
    other: (Method, &'static str, Value),
    wanted: (Method, &'static str, Value),
}

fn change(
    shown: &'static str,
    other: (Method, &'static str, Value),
    wanted: (Method, &'static str, Value),
) -> Change {
    Change { shown, other, wanted }
}

fn changes() -> Vec<Change> {
    let (post, delete) = (Method::POST, Method::DELETE);
    let overdue = json!({ "tenant": ACME, "resource": "gpu/H100", "overdue": true });
    let schedule = json!({
        "cron": "30 2 1 1 *", "zone": "UTC", "skipped_hour": "shift", "repeated_hour": "last", "note": "later",
        "start": { "workflow": "reclaim", "data": overdue },
    });
    let limit = |concurrency: u32| json!({ "key": "cluster/eu-1", "concurrency": concurrency });
    let hold =
        |id: &str| json!({ "tenant": ACME, "id": id, "kind": "legal", "reason": "litigation of somebody" });
    let user = |name: &str| json!({ "user": name });
    let why = json!({ "reason": "maintenance" });
    vec![
        change(
            "/v1/groups/watch",
            (post.clone(), "/v1/groups/watch:join", user("otto")),
            (post.clone(), "/v1/groups/watch:leave", user("olga")),
        ),
        change(
            "/v1/groups/watch",
            (post.clone(), "/v1/groups/watch:leave", user("otto")),
            (delete.clone(), "/v1/groups/watch", Value::Null),
        ),
        change(
            "/v1/schedules/nightly",
            (Method::PUT, "/v1/schedules/nightly", schedule),
            (post.clone(), "/v1/schedules/nightly:pause", why.clone()),
        ),
        change(
            "/v1/limits/cluster%2Feu-1",
            (post.clone(), "/v1/limits", limit(3)),
            (post.clone(), "/v1/limits/cluster%2Feu-1:close", why.clone()),
        ),
        change(
            "/v1/limits/cluster%2Feu-1",
            (post.clone(), "/v1/limits", limit(5)),
            (post.clone(), "/v1/limits/cluster%2Feu-1:open", json!({})),
        ),
        change(
            "/v1/limits/cluster%2Feu-1",
            (post.clone(), "/v1/limits/cluster%2Feu-1:close", why.clone()),
            (post.clone(), "/v1/limits", limit(7)),
        ),
        change(
            "/v1/limits/cluster%2Feu-1",
            (post.clone(), "/v1/limits", limit(9)),
            (delete, "/v1/limits/cluster%2Feu-1", Value::Null),
        ),
        change(
            "/v1/holds/acme/case-9",
            (post.clone(), "/v1/holds", hold("case-10")),
            (post, "/v1/holds/acme/case-9:release", json!({ "reason": "settled out of court" })),
        ),
    ]
}

#[tokio::test]
async fn a_change_is_refused_if_the_document_changed_since_it_was_read() {
    let served = with_acme().await;
    served.user("olga", &["platform_ops"], None).await;
    served.user("otto", &["auditor"], None).await;
    let dana = served.user("dana", &["dpo", "compliance"], None).await;
    let group = json!({ "name": "watch", "members": ["olga"] });
    assert_eq!(served.json_as(&served.admin, "/v1/groups", group).await.status, 201);
    let changes = changes();
    let (_, path, schedule) = &changes[2].other;
    let asked = served.ask(Method::PUT, path).bearer_auth(&served.admin).json(schedule);
    assert_eq!(served.send(asked).await.status, 201);
    let limit = json!({ "key": "cluster/eu-1", "concurrency": 4 });
    assert_eq!(served.json_as(&served.admin, "/v1/limits", limit).await.status, 200);
    let hold = json!({ "tenant": ACME, "id": "case-9", "kind": "legal", "reason": "litigation" });
    assert_eq!(served.json_as(&dana, "/v1/holds", hold).await.status, 201);

    for Change { shown, other: (by, at, body), wanted: (method, path, wanted) } in changes {
        let read = tag(&served, shown).await;
        let changed = served.send(served.ask(by, at).bearer_auth(&served.admin).json(&body)).await;
        assert!(changed.status.is_success(), "{at}: {}", changed.body);
        let stale = bound(&served, method.clone(), path, &read, wanted.clone()).await;
        assert_eq!(stale.status, 412, "{path}: {}", stale.body);
        let stands = tag(&served, shown).await;
        assert_ne!(stands, read, "{at}");
        for wrong in ["\"0\"", stands.trim_matches('"'), &format!("W/{stands}")] {
            let refused = bound(&served, method.clone(), path, wrong, wanted.clone()).await;
            assert_eq!(refused.status, 412, "{path} with {wrong}: {}", refused.body);
        }
        assert_eq!(tag(&served, shown).await, stands, "{path}: nothing was changed");
        let several = format!("\"0\", {stands}");
        let done = bound(&served, method, path, &several, wanted).await;
        assert!(done.status.is_success(), "{path}: {}", done.body);
    }
}

#[tokio::test]
async fn users_delegations_reservations_and_policies_are_changed_only_at_the_given_revision() {
    let served = with_acme().await;
    served.user("olga", &["platform_ops"], None).await;
    let made = json!({ "to": "olga", "until": soon(), "reason": "on leave" });
    let delegation = served.json_as(&served.admin, "/v1/delegations", made).await.id();
    let peak = json!({ "tenant": ACME, "workspace": "serving", "name": "peak", "kind": "H100", "count": 1 });
    assert_eq!(served.json_as(&served.admin, "/v1/reservations", peak).await.status, 201);

    for path in [
        "/v1/users/olga".to_owned(),
        format!("/v1/delegations/{delegation}"),
        "/v1/reservations/acme/serving/peak".to_owned(),
    ] {
        let stale = bound(&served, Method::DELETE, &path, "\"1\"", Value::Null).await;
        assert_eq!((stale.status.as_u16(), stale.code()), (412, "request.stale_tag"), "{}", stale.body);
    }
    let read = tag(&served, "/v1/policies/current").await;
    let text = served.get("/v1/policies/current").await.body["text"].as_str().unwrap().to_owned();
    let publish = async |tag: &str| {
        let asked = served.ask(Method::POST, "/v1/policies").bearer_auth(&served.admin);
        let asked = asked.header("if-match", tag).header("content-type", "application/yaml");
        served.send(asked.body(text.clone())).await
    };
    assert_eq!(publish("\"999\"").await.code(), "request.stale_tag");
    let published = publish(&read).await;
    assert_ne!(published.status, 412, "{}", published.body);
    for path in [
        "/v1/reservations/acme/serving/peak".to_owned(),
        format!("/v1/delegations/{delegation}"),
        "/v1/users/olga".to_owned(),
    ] {
        let read = tag(&served, &path).await;
        let done = bound(&served, Method::DELETE, &path, &read, Value::Null).await;
        assert_eq!(done.status, 204, "{path}: {}", done.body);
    }
}

#[tokio::test]
async fn a_signal_is_conditional_on_the_revision_that_was_read() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    served.asked(&id).await;
    let path = format!("/v1/executions/{id}:signal");
    let stale = bound(&served, Method::POST, &path, "\"0\"", json!({ "signal": "capacity.freed" })).await;
    assert_eq!((stale.status.as_u16(), stale.code()), (412, "request.stale_revision"), "{}", stale.body);
}

#[tokio::test]
async fn a_route_without_revisions_refuses_if_match() {
    let served = Served::start();
    for (method, path, body) in [
        (Method::POST, "/v1/users", json!({ "name": "olga", "roles": ["finance"] })),
        (Method::POST, "/v1/retention:run", json!({})),
        (Method::GET, "/v1/users", Value::Null),
        (Method::GET, "/livez", Value::Null),
    ] {
        let refused = bound(&served, method, path, "\"1\"", body).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (400, "header.unsupported"), "{path}");
        assert!(refused.body["detail"].as_str().unwrap().contains("If-Match"), "{}", refused.body);
    }
    assert_eq!(served.get("/v1/users/olga").await.status, 404, "nothing was done");
}
