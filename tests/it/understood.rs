//! HTTP: requests in the pages are understood, unknown resources are rejected by name, and waiting executions continue
//! by themselves.

use crate::{
    domain_http::{ACME, items, submit, with_acme},
    served::seen,
};
use serde_json::{Value, json};

/// The server understands every request in the pages: it may refuse its content, never its form.
#[tokio::test]
async fn the_server_accepts_every_request_body_in_the_docs() {
    let served = with_acme().await;
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/http-api.md");
    let text = std::fs::read_to_string(page).unwrap();
    let section = text.split("## Bodies\n").nth(1).and_then(|rest| rest.split("\n## ").next()).unwrap();
    let rows: Vec<Vec<&str>> = section
        .lines()
        .filter(|line| line.starts_with("| `/v1/"))
        .map(|line| line.split(" | ").map(|cell| cell.trim_matches(['|', ' ', '`'])).collect())
        .collect();
    assert!(rows.len() >= 11, "{rows:?}");

    for row in rows {
        let body: Value = serde_json::from_str(row[1]).unwrap_or_else(|e| panic!("{}: {e}", row[1]));
        let answer = served.json_as(&served.admin, row[0], body).await;
        let misread = ["request.malformed", "document.invalid", "query.invalid", "route.unknown"];
        let code = if answer.status.is_success() { String::new() } else { answer.code().to_owned() };
        assert!(!misread.contains(&code.as_str()), "{}: {}", row[0], answer.body);
        assert!(!answer.status.is_server_error(), "{}: {}", row[0], answer.body);
    }
}

/// Half a GPU is not allowed, and the answer names the alternative.
#[tokio::test]
async fn a_fraction_of_a_gpu_is_refused_with_a_suggestion() {
    let served = with_acme().await;
    let body =
        json!({ "tenant": ACME, "workspace": "research", "name": "half", "requests": { "gpu/H100": 0.5 } });
    let half = served.json_as(&served.admin, "/v1/workloads", body).await;
    assert!(half.status.is_client_error(), "{}", half.body);
    assert!(half.body.to_string().contains("ask for slices in whole numbers"), "{}", half.body);
}

/// Unknown resources are rejected before an approval opens.
#[tokio::test]
async fn an_unknown_name_is_refused_and_named() {
    let served = with_acme().await;
    let nowhere = [
        ("/v1/capacity-exhaustions", json!({ "region": "mars", "model": "H100" }), "mars"),
        ("/v1/capacity-exhaustions:plan", json!({ "region": "eu", "model": "X1" }), "X1"),
        (
            "/v1/incidents",
            json!({ "kind": "isolation_breach", "tenants": ["nobody"], "evidence": "x" }),
            "nobody",
        ),
        (
            "/v1/holds",
            json!({ "tenant": ACME, "id": "c", "kind": "legal", "reason": "x", "workspace": "nope" }),
            "nope",
        ),
    ];
    for (route, body, named) in nowhere {
        let answer = served.json_as(&served.admin, route, body).await;
        assert!(answer.status.is_client_error(), "{route}: {} {}", answer.status, answer.body);
        assert!(answer.body["detail"].to_string().contains(named), "{route}: {}", answer.body);
    }
    assert!(items(&served.get("/v1/executions?open=true").await).is_empty());
}

/// The end of a workload also wakes the quota change that waits for it.
#[tokio::test]
async fn a_decrease_that_waits_goes_on_when_a_workload_ends() {
    let served = with_acme().await;
    seen(&served, ACME).await;
    submit(&served, "research", "fills", 4).await;
    submit(&served, "serving", "lends-nothing", 4).await;
    // With a borrowing limit, use beyond the quota would be borrowed from the pool.
    let fewer = json!({
        "tenant": ACME, "workspace": "research", "resource": "gpu/H100", "to": 2, "borrowing_limit": 0, "reason": "done"
    });
    let id = served.json_as(&served.admin, "/v1/quota-requests", fewer).await.id();
    let digest = served.asked(&id).await["digest"].clone();
    for (name, role, tenant) in [("tina", "tenant_owner", Some(ACME)), ("olga", "platform_ops", None)] {
        let token = served.user(name, &[role], tenant).await;
        let vote = json!({ "digest": digest });
        let voted = served.json_as(&token, &format!("/v1/approvals/{id}:approve"), vote).await;
        assert_eq!(voted.status, 200, "{}", voted.body);
    }
    served.until(&id, |item| item["state"] == "DrainingExcess").await;

    let ended = served.json_as(&served.admin, "/v1/workloads/acme/fills:finish", json!({})).await;
    assert_eq!(ended.status, 200, "{}", ended.body);

    assert_eq!(served.ended(&id).await["reason"], "completed");
}
