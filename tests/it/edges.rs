//! Common mistakes of operators: invalid names, contracts, workloads, quotas and bodies are rejected by the route they are sent to.

use crate::{
    domain_http::{submit, with_acme},
    served::{Served, seen, shared, small},
};
use reqwest::Method;
use serde_json::json;
use std::fs;

/// `policy check`, a plan, and the request itself report the same.
#[tokio::test]
async fn an_expired_contract_is_refused_by_check_plan_and_request() {
    let served = Served::with_nodes().await;
    for (to, ended) in [("2020-01-01", true), ("2036-01-01", false)] {
        let text = small("lab").replace("  gpus: 8\n", &format!("  gpus: 8\n  to: {to}\n"));
        fs::write(served.dir.path().join("lab.yaml"), &text).unwrap();

        let check = served.run(&["policy", "check", "lab.yaml"]);
        assert_eq!(check.exit, i32::from(ended), "{check:?}");
        assert_eq!(check.out.contains("entitlement.not_ended"), ended, "{check:?}");
        let on_server = served.run(&["policy", "check", "lab.yaml", "--on-server"]);
        assert_eq!(on_server.exit, i32::from(ended), "{on_server:?}");

        let plan = served.post("/v1/tenants:plan", "application/yaml", &text).await;
        let verdict = plan.body["decision"]["verdict"].as_str().unwrap();
        assert_eq!(verdict == "rejected", ended, "{}", plan.body);
        let id = served.onboard(&text).await;
        let end = served.ended(&id).await;
        assert_eq!(end["reason"] == "rejected", ended, "{end}");
    }
}

/// The same command also finds errors that only the server can detect, and a name is free again after a typo.
#[tokio::test]
async fn a_check_on_the_server_finds_the_reasons_for_which_the_request_would_be_rejected() {
    let served = Served::with_nodes().await;
    let elsewhere = small("lab").replace("data_residency: eu-only", "data_residency: [zz]");
    fs::write(served.dir.path().join("lab.yaml"), &elsewhere).unwrap();
    assert_eq!(served.run(&["policy", "check", "lab.yaml"]).exit, 0);
    let checked = served.run(&["policy", "check", "lab.yaml", "--on-server"]);
    assert!(checked.exit == 1 && checked.out.contains("placement.data_residency"), "{checked:?}");

    let rejected = served.ended(&served.onboard(&elsewhere).await).await;
    assert_eq!(rejected["reason"], "rejected", "{rejected}");
    let again = served.ended(&served.onboard(&small("lab")).await).await;
    assert_eq!(again["reason"], "completed", "the name is free: {again}");

    let reserved = served.post("/v1/tenants", "application/yaml", &small("kube-system")).await;
    assert_eq!((reserved.status.as_u16(), reserved.code()), (422, "document.invalid"), "{}", reserved.body);
}

#[tokio::test]
async fn a_rejected_workload_can_be_replaced_under_its_name_and_an_accepted_one_cannot() {
    let served = with_acme().await;
    seen(&served, "acme").await;
    assert_eq!(submit(&served, "research", "train", 1_000).await.code(), "workload.rejected");

    let corrected = submit(&served, "research", "train", 2).await;
    assert_eq!(
        (corrected.status.as_u16(), &corrected.body["answer"]),
        (200, &json!("admit")),
        "{}",
        corrected.body
    );
    let other = submit(&served, "research", "train", 3).await;
    assert_eq!((other.status.as_u16(), other.code()), (409, "workload.differs"));
}

#[tokio::test]
async fn a_quota_change_with_a_misspelt_field_is_refused_on_submission() {
    let served = with_acme().await;
    let before = served.get("/v1/executions?limit=1000").await.body["items"].as_array().unwrap().len();
    for (to, resource, exit) in [
        ("acme/researsh", "gpu/H100", 3),
        ("acmee/research", "gpu/H100", 3),
        ("acme/research", "gpu/A100", 2),
    ] {
        let set = served.run(&["quota", "set", to, resource, "2", "--reason", "x"]);
        assert_ne!(set.exit, 0, "{set:?}");
        let named = set.err.contains("researsh") || set.err.contains("acmee") || set.err.contains("gpu/A100");
        assert!(named, "{exit}: {set:?}");
    }
    let after = served.get("/v1/executions?limit=1000").await.body["items"].as_array().unwrap().len();
    assert_eq!(after, before, "no execution was started");
}

#[tokio::test]
async fn a_body_or_a_host_meant_for_another_server_is_refused() {
    let served = Served::start();
    let ask = |name: &str, value: &str| {
        let request = served.ask(Method::POST, "/v1/tenants:plan").bearer_auth(&served.admin);
        request.header(name, value).body(shared("globex"))
    };
    for (name, value) in [("content-type", "text/html"), ("content-encoding", "gzip")] {
        let answer = served.send(ask(name, value)).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (415, "request.media_type"), "{}", answer.body);
    }
    for path in ["/metrics", "/readyz?verbose"] {
        let near = served.send(served.ask(Method::GET, path)).await;
        assert_eq!(near.status, 200, "{path}");
        let rebound = served.send(served.ask(Method::GET, path).header("host", "evil.example")).await;
        assert_eq!(rebound.status, 401, "{path}: {}", rebound.body);
    }
}

#[tokio::test]
async fn names_that_look_like_another_user_or_a_reserved_name_are_refused() {
    let served = Served::start();
    served.user("olga", &["platform_ops"], None).await;
    for name in ["Olga", "OLGA", "Admin", "unknown", "-", "platform"] {
        let body = json!({ "name": name, "roles": ["platform_ops"] });
        let answer = served.json_as(&served.admin, "/v1/users", body).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (422, "user.invalid"), "{name}: {}", answer.body);
    }
}

#[tokio::test]
async fn a_closed_limit_and_a_missing_channel_are_listed_for_operators() {
    let served = Served::with_nodes().await;
    let closed = served.run(&["limits", "close", "cluster/eu-1", "--reason", "switch change"]);
    assert_eq!(closed.exit, 0, "{closed:?}");

    let stuck = served.run(&["stuck"]);
    assert!(stuck.out.contains("limit/cluster/eu-1") || stuck.out.contains("cluster/eu-1"), "{stuck:?}");
    assert!(stuck.err.contains("no notification channel"), "{stuck:?}");
    let doctor = served.run(&["doctor"]);
    assert!(doctor.out.contains("switch change"), "{doctor:?}");
    let opened = served.run(&["limits", "open", "cluster/eu-1"]);
    assert_eq!(opened.exit, 0, "{opened:?}");
    assert_eq!(served.get("/v1/stuck").await.body["limits"], json!([]));
}

#[test]
fn commands_without_effect_report_that_nothing_changed() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| crate::served::Ran::of(crate::served::tenure(dir.path()).args(arguments));
    assert!(run(&["version"]).out.starts_with("tenure "));
    let rule = run(&["explain", "placement.ever_fits"]);
    assert!(rule.exit == 0 && rule.out.contains("buffer"), "{rule:?}");
    fs::write(dir.path().join("cases.json"), r#"{"cases": []}"#).unwrap();
    assert_eq!(run(&["reclaim", "cases", "cases.json"]).exit, 1);
    fs::write(dir.path().join("latin1.yaml"), b"name: caf\xe9\n").unwrap();
    let latin = run(&["policy", "check", "latin1.yaml"]);
    assert!(latin.exit == 2 && latin.err.contains("iconv"), "{latin:?}");
    let label = run(&["tenant", "onboard", "--file", "x.yaml", "--label", "a\u{1b}[2Jb"]);
    assert!(label.exit == 2 && label.err.contains("--label"), "{label:?}");
}
