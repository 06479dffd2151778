//! HTTP: access, answers, and requests that are never performed twice. Against a real server.

use crate::served::{Answer, Served, large, small};
use reqwest::Method;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) const YAML: &str = "application/yaml";
pub(crate) const CREATE: &str = "tenant.create.requested";

#[tokio::test]
async fn a_requester_cannot_approve_their_own_request_over_http() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    let digest = served.asked(&id).await["digest"].clone();
    let approve = format!("/v1/approvals/{id}:approve");

    let own = served.json_as(&served.admin, &approve, json!({ "digest": digest })).await;
    assert_eq!((own.status.as_u16(), own.code()), (403, "approval.own_request"));

    let other = served.user("ada", &["platform_ops"], None).await;
    let granted = served.json_as(&other, &approve, json!({ "digest": digest, "reason": "signed" })).await;
    assert_eq!(granted.status, 200, "{}", granted.body);
    assert_eq!(served.ended(&id).await["reason"], "completed");
    let tenant = served.get("/v1/tenants/acme").await;
    assert_eq!(tenant.body["state"], "active");
}

#[tokio::test]
async fn a_vote_counts_only_for_the_plan_that_was_read() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    served.asked(&id).await;
    let ada = served.user("ada", &["platform_ops"], None).await;
    let approve = format!("/v1/approvals/{id}:approve");

    let blind = served.json_as(&ada, &approve, json!({})).await;
    assert_eq!((blind.status.as_u16(), blind.code()), (422, "approval.digest_missing"));
    let stale = served.json_as(&ada, &approve, json!({ "digest": "sha256:00" })).await;
    assert_eq!((stale.status.as_u16(), stale.code()), (409, "approval.plan_changed"));
}

fn event(served: &Served, id: &str, document: &str) -> reqwest::RequestBuilder {
    let request = served.ask(Method::POST, "/v1/events").bearer_auth(&served.admin);
    let attributes =
        [("ce-specversion", "1.0"), ("ce-id", id), ("ce-source", "/orders"), ("ce-type", CREATE)];
    let request = attributes.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.header("content-type", YAML).body(document.to_owned())
}

#[tokio::test]
async fn the_same_event_twice_starts_one_execution() {
    let served = Served::with_nodes().await;

    let first = served.send(event(&served, "1", &small("acme"))).await;
    let again = served.send(event(&served, "1", &small("acme"))).await;
    let data = json!({
        "name": "acme",
        "tenant": {
            "tier": "research", "isolation": "dedicated", "data_residency": "eu-only",
            "allow_preemption": false, "allow_gpu_sharing": false
        },
        "entitlement": { "gpu_model": "H100", "gpus": 8 }
    });
    let envelope =
        json!({ "specversion": "1.0", "id": "1", "source": "/orders", "type": CREATE, "data": data });
    let structured = served.post("/v1/events", "application/cloudevents+json", &envelope.to_string()).await;

    assert_eq!(first.status, 202, "{}", first.body);
    assert_eq!(first.headers["location"].to_str().unwrap(), format!("/v1/executions/{}", first.id()));
    for answer in [again, structured] {
        assert_eq!(answer.status, 200, "{}", answer.body);
        assert_eq!(answer.id(), first.id());
        assert_eq!(answer.headers["idempotency-replayed"], "true");
    }
    let all = served.get("/v1/executions").await;
    assert_eq!(all.body["items"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn concurrent_copies_of_one_event_start_one_execution() {
    let served = Served::with_nodes().await;
    let document = small("acme");
    let (a, b, c, d) = tokio::join!(
        served.send(event(&served, "1", &document)),
        served.send(event(&served, "1", &document)),
        served.send(event(&served, "1", &document)),
        served.send(event(&served, "1", &document)),
    );
    let ids: BTreeSet<_> = [a, b, c, d].iter().map(Answer::id).collect();
    assert_eq!(ids.len(), 1);
}

#[tokio::test]
async fn an_event_whose_key_was_used_for_something_else_is_refused() {
    let served = Served::with_nodes().await;
    served.send(event(&served, "1", &small("acme"))).await;
    let other = served.send(event(&served, "1", &small("other"))).await;
    assert_eq!((other.status.as_u16(), other.code()), (422, "idempotency.key_reused"));
}

#[tokio::test]
async fn an_invalid_cloud_event_is_refused_with_the_reason() {
    let served = Served::start();
    let post = async |body: Value| {
        served.post("/v1/events", "application/cloudevents+json", &body.to_string()).await
    };
    let nameless = post(json!({ "specversion": "1.0", "id": "1", "type": CREATE })).await;
    assert_eq!((nameless.status.as_u16(), nameless.code()), (400, "request.malformed"));
    assert_eq!(nameless.body["errors"][0]["pointer"], "/source");
    let foreign =
        post(json!({ "specversion": "1.0", "id": "1", "source": "/s", "type": "cake.baked" })).await;
    assert_eq!((foreign.status.as_u16(), foreign.code()), (422, "event.unknown_type"));
    let data = json!({ "name": "acme", "tenant": { "tier": "gold" } });
    let wrong =
        post(json!({ "specversion": "1.0", "id": "1", "source": "/s", "type": CREATE, "data": data })).await;
    let pointers: Vec<_> =
        wrong.body["errors"].as_array().unwrap().iter().map(|e| e["pointer"].as_str().unwrap()).collect();
    assert!(pointers.contains(&"/data/tenant/tier"), "{pointers:?}");
}

#[tokio::test]
async fn an_invalid_document_is_refused_with_field_line_and_column() {
    let served = Served::start();
    let yaml = small("acme").replace("tier: research", "tier: gold");
    let json = "{\n  \"name\": \"acme\",\n  \"tenant\": {\n    \"tier\": \"gold\"\n  }\n}";
    for (media, document, line) in [(YAML, yaml.as_str(), 3), ("application/json", json, 4)] {
        let answer = served.post("/v1/tenants", media, document).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (422, "document.invalid"), "{media}");
        let errors = answer.body["errors"].as_array().unwrap();
        let tier = errors.iter().find(|error| error["pointer"] == "/tenant/tier").unwrap();
        assert_eq!(tier["line"], line, "{tier}");
        assert!(tier["column"].as_u64().unwrap() > 0);
    }
    let broken = served.post("/v1/tenants", "application/json", "{\n  \"name\": \n}").await;
    assert_eq!((broken.status.as_u16(), broken.code()), (400, "request.malformed"));
    assert_eq!(broken.body["errors"][0]["line"], 3);
    assert_eq!(served.get("/v1/executions").await.body["items"], json!([]));
}

#[tokio::test]
async fn an_invalid_row_is_named_and_no_row_of_the_file_is_applied() {
    let served = Served::start();
    let file = crate::served::NODES.replace("n-7,96000", "n-7,many");
    let answer = served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", &file).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    assert_eq!(answer.body["errors"][0]["line"], 8);
    assert!(answer.body["detail"].as_str().unwrap().contains("cpu_milli"), "{}", answer.body);
    assert_eq!(served.get("/v1/nodes").await.body["items"], json!([]));
    assert_eq!(served.get("/v1/clusters").await.body["items"], json!([]));
}

#[tokio::test]
async fn an_unknown_resource_is_a_problem_with_its_own_code() {
    let served = Served::start();
    let admin = &served.admin;
    let none = "tn_0011223344556677_0011223344556677001122334455667700112233445566770011223344556677";
    let cases = [
        (served.get("/v1/cakes").await, 404, "route.unknown"),
        (served.post("/v1/executions/x:explode", YAML, "").await, 404, "route.unknown"),
        (served.post("/v1/clusters", YAML, "").await, 405, "route.method"),
        (served.get("/v1/executions?colour=red").await, 400, "query.invalid"),
        (served.get("/v1/executions?limit=0").await, 400, "query.invalid"),
        (served.get("/v1/executions?cursor=zz").await, 400, "query.invalid"),
        (served.get("/v1/executions/0000").await, 404, "resource.not_found"),
        (served.get("/v1/workflows/nothing/diagram").await, 404, "resource.not_found"),
        (served.get_as(none, "/v1/tenants").await, 401, "auth.bad_token"),
        (served.get_as("x", "/v1/tenants").await, 401, "auth.bad_token"),
        (served.send(served.ask(Method::GET, "/v1/tenants")).await, 401, "auth.no_token"),
        (
            served.json_as(admin, "/v1/users", json!({ "name": "x", "roles": ["king"] })).await,
            400,
            "request.malformed",
        ),
        (served.json_as(admin, "/v1/users", json!({ "name": "x", "roles": [] })).await, 422, "user.invalid"),
        (served.post("/v1/fleet:import", "text/plain", "x").await, 415, "request.media_type"),
    ];
    for (answer, status, code) in cases {
        assert_eq!((answer.status.as_u16(), answer.code()), (status, code), "{}", answer.body);
        assert_eq!(answer.headers["content-type"], "application/problem+json");
        assert_eq!(answer.body["status"], status);
        for part in ["type", "title", "detail", "remedy"] {
            assert!(answer.body[part].as_str().is_some_and(|text| !text.is_empty()), "{}", answer.body);
        }
        assert!(answer.headers.contains_key("x-request-id"));
    }
}

#[tokio::test]
async fn a_body_above_the_limit_is_refused() {
    let served = Served::start_with(&[("TENURE_HTTP_BODY_LIMIT_BYTES", "1000")]);
    let answer = served.post("/v1/tenants", YAML, &"#".repeat(2_000)).await;
    assert_eq!((answer.status.as_u16(), answer.code()), (413, "request.too_large"));
}

#[tokio::test]
async fn a_repeated_idempotency_key_gets_the_first_answer() {
    let served = Served::with_nodes().await;
    let post = async |key: &str, path: &str, body: String| {
        let request = served.ask(Method::POST, path).bearer_auth(&served.admin);
        let request = request.header("idempotency-key", key).header("content-type", YAML);
        served.send(request.body(body)).await
    };
    let first = post("k1", "/v1/tenants", large("acme")).await;
    let again = post("k1", "/v1/tenants", large("acme")).await;
    assert_eq!((first.status, again.status), (again.status, 202.try_into().unwrap()));
    assert_eq!(again.headers["idempotency-replayed"], "true");
    assert_eq!((again.id(), &again.headers["location"]), (first.id(), &first.headers["location"]));

    let other = post("k1", "/v1/tenants", large("other")).await;
    assert_eq!((other.status.as_u16(), other.code()), (422, "idempotency.key_reused"));

    served.asked(&first.id()).await;
    let cancel = format!("/v1/executions/{}:cancel", first.id());
    let (done, twice) = (post("k2", &cancel, String::new()).await, post("k2", &cancel, String::new()).await);
    assert_eq!((done.status.as_u16(), twice.status.as_u16()), (200, 200), "{}", twice.body);
    let anew = post("k3", &cancel, String::new()).await;
    assert_eq!(anew.status, 409, "without the key it is a second request: {}", anew.body);
}

#[tokio::test]
async fn a_change_decided_on_an_old_revision_is_refused() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    served.asked(&id).await;
    let show = served.get(&format!("/v1/executions/{id}")).await;
    let etag = show.headers["etag"].to_str().unwrap().to_owned();
    let pause = async |tag: &str| {
        let request = served.ask(Method::POST, &format!("/v1/executions/{id}:pause"));
        served.send(request.bearer_auth(&served.admin).header("if-match", tag)).await
    };
    let stale = pause("\"0\"").await;
    assert_eq!((stale.status.as_u16(), stale.code()), (412, "request.stale_revision"));
    assert_eq!(pause(&etag).await.status, 200);
}

#[tokio::test]
async fn a_second_execution_for_a_tenant_is_refused_and_the_first_is_named() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    let second = served.post("/v1/tenants", YAML, &large("acme")).await;
    assert_eq!((second.status.as_u16(), second.code()), (409, "execution.busy"));
    assert_eq!(second.body["execution"], id.as_str());
}

#[tokio::test]
async fn pages_of_a_list_continue_without_gaps() {
    let served = Served::with_nodes().await;
    let (mut ids, mut path) = (Vec::new(), "/v1/nodes?limit=3".to_owned());
    loop {
        let page = served.get(&path).await.body;
        ids.extend(page["items"].as_array().unwrap().iter().map(|node| node["id"].clone()));
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/nodes?limit=3&cursor={next}");
    }
    let wanted: Vec<_> = (1..=8).map(|n| json!(format!("n-{n}"))).collect();
    assert_eq!(ids, wanted);
}

#[tokio::test]
async fn a_preview_shows_the_plan_and_changes_nothing() {
    let served = Served::with_nodes().await;
    let plan = served.post("/v1/tenants:plan", YAML, &large("acme")).await;
    assert_eq!(plan.status, 200, "{}", plan.body);
    assert_eq!(plan.body["decision"]["verdict"], "needs_approval");
    assert_eq!(plan.body["plan"]["decides"]["simulated"], true);
    assert_eq!(served.get("/v1/executions").await.body["items"], json!([]));
    assert_eq!(served.get("/v1/tenants").await.body["items"], json!([]));

    let id = served.onboard(&large("acme")).await;
    assert_eq!(served.asked(&id).await["digest"], plan.body["digest"], "the approval has the previewed plan");
}

#[tokio::test]
async fn readiness_names_its_checks_and_the_simulated_parts() {
    let served = Served::with_nodes().await;
    let ready = served.send(served.ask(Method::GET, "/readyz?verbose")).await;
    assert_eq!(ready.status, 200);
    let checks: BTreeMap<_, _> =
        ready.body["checks"].as_array().unwrap().iter().map(|c| (c["name"].as_str().unwrap(), c)).collect();
    assert_eq!(checks.keys().copied().collect::<Vec<_>>(), ["engine", "platform", "store"]);
    assert_eq!(checks["platform"]["facts"]["simulated"], json!(["eu-1"]));
    let metrics = served.send(served.ask(Method::GET, "/metrics")).await;
    let text = metrics.body.as_str().unwrap();
    for name in
        ["tenure_http_requests_total", "tenure_store_commits_total", "tenure_store_disk_amplification"]
    {
        assert!(text.contains(name), "{name}");
    }
}

#[tokio::test]
async fn a_removed_user_is_refused_and_no_answer_shows_a_token_again() {
    let served = Served::start();
    let token = served.user("ada", &["auditor"], None).await;
    assert_eq!(served.get_as(&token, "/v1/users").await.status, 200);
    let users = served.get("/v1/users").await.body.to_string();
    let secret = token.rsplit('_').next().unwrap();
    assert!(!users.contains("token") && !users.contains(secret), "{users}");
    let removed = served.send(served.ask(Method::DELETE, "/v1/users/ada").bearer_auth(&served.admin)).await;
    assert_eq!(removed.status, 204);
    assert_eq!(served.get_as(&token, "/v1/users").await.code(), "auth.bad_token");
    let first = served.send(served.ask(Method::DELETE, "/v1/users/admin").bearer_auth(&served.admin)).await;
    assert_eq!(first.code(), "user.is_admin");
}
