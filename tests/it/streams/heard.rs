//! Which events a user receives.

use super::{Stream, Told, ask, ends};
use crate::served::{Served, large, small};
use serde_json::{Value, json};
use std::time::Duration;

#[tokio::test]
async fn the_token_of_a_tenant_never_receives_events_of_another() {
    let served = Served::with_nodes().await;
    let owner = served.user("owner", &["tenant_owner"], Some("acme")).await;
    let ada = served.user("ada", &["platform_ops"], None).await;
    let mut watch = Stream::open(&served, &owner, "/v1/watch", "").await;
    let mut asked = Stream::open(&served, &owner, "/v1/approvals/events?all=true", "").await;
    let begin = watch.must().await;
    assert_eq!((begin.name.as_str(), asked.must().await.name.as_str()), ("present", "present"));

    for tenant in ["zeta", "acme"] {
        let id = served.onboard(&large(tenant)).await;
        let digest = served.asked(&id).await["digest"].clone();
        let yes = json!({ "digest": digest, "reason": "order 4711" });
        assert_eq!(served.json_as(&ada, &format!("/v1/approvals/{id}:approve"), yes).await.status, 200);
        served.ended(&id).await;
        if tenant == "zeta" {
            assert_eq!(ask(&served, &owner, &format!("/v1/executions/{id}/events"), "").await.status(), 404);
        }
    }

    let own = |told: &Told| told.data["execution"]["tenant"] == "acme";
    let live = watch.until(ends).await;
    assert!(live.len() > 3 && live.iter().all(own), "{live:?}");
    let cases = asked.until(|told| told.name == "closed").await;
    assert!(cases.iter().all(|told| told.data["approval"]["tenant"] == "acme"), "{cases:?}");
    // Another user's id gives no more rights.
    let mut again = Stream::open(&served, &owner, "/v1/watch", &begin.id).await;
    let again = again.until(ends).await;
    assert_eq!(
        again.iter().map(Told::fact).collect::<Vec<_>>(),
        live.iter().map(Told::fact).collect::<Vec<_>>()
    );
    let foreign = Stream::open(&served, &owner, "/v1/watch?tenant=zeta", "").await.must().await;
    assert_eq!(foreign.data["items"], json!([]));
}

#[tokio::test]
async fn approvers_receive_their_opened_and_decided_approvals_and_others_do_not() {
    let served = Served::with_nodes().await;
    let ada = served.user("ada", &["platform_ops"], None).await;
    let vera = served.user("vera", &["auditor"], None).await;
    let path = "/v1/approvals/events";
    let mut asked = Stream::open(&served, &ada, path, "").await;
    let mut idle = Stream::open(&served, &vera, path, "").await;
    let mut all = Stream::open(&served, &vera, "/v1/approvals/events?all=true", "").await;
    let begin = asked.must().await;
    for stream in [&mut idle, &mut all] {
        assert_eq!(stream.must().await.data, json!({ "items": [], "next": null }));
    }

    let id = served.onboard(&large("acme")).await;
    let opened = asked.must().await;
    assert_eq!(opened.name, "opened");
    let shown = served.get_as(&ada, &format!("/v1/approvals/{id}")).await.body;
    assert_eq!(opened.data["approval"], shown, "as the approval is shown");
    let yes = json!({ "digest": shown["digest"], "reason": "order 4711" });
    assert_eq!(served.json_as(&ada, &format!("/v1/approvals/{id}:approve"), yes).await.status, 200);
    let closed = asked.must().await;
    assert_eq!((closed.name.as_str(), &closed.data["approval"]["ruling"]), ("closed", &json!("granted")));
    assert_eq!(closed.data["approval"]["votes"][0]["person"], "ada");
    served.ended(&id).await;
    assert_eq!([all.must().await.name, all.must().await.name], ["opened", "closed"]);
    assert!(idle.is_silent(Duration::from_millis(500)).await, "vera has no seat");

    let mut late = Stream::open(&served, &ada, path, &begin.id).await;
    let told = late.must().await;
    assert_eq!(told.name, "closed", "the last version, once");
    assert_eq!(told.data, closed.data);
    assert!(late.is_silent(Duration::from_millis(500)).await);
}

#[tokio::test]
async fn an_execution_that_stops_matching_is_reported_once() {
    let served = Served::with_nodes().await;
    let mut open =
        Stream::open(&served, &served.admin, "/v1/watch?filter=open%20and%20tenant%20%3D%20acme", "").await;
    open.must().await;
    let other = served.onboard(&small("zeta")).await;
    served.ended(&other).await;
    let id = served.onboard(&small("acme")).await;
    let told = open.until(|told| told.name == "left").await;
    let (left, before) = told.split_last().unwrap();
    assert!(before.iter().all(|told| told.name == "changed" && told.execution() == id), "{told:?}");
    assert_eq!((left.execution(), &left.data["execution"]["open"]), (id.as_str(), &json!(false)));
    assert!(open.is_silent(Duration::from_millis(500)).await);

    for path in [
        "/v1/watch?filter=colour%20%3D%20red",
        "/v1/watch?cursor=00",
        "/v1/watch?limit=0",
        "/v1/approvals/events?seat=x",
    ] {
        let refused = ask(&served, &served.admin, path, "").await;
        assert_eq!(refused.status(), 400, "{path}");
        let body: Value = refused.json().await.unwrap();
        assert!(["filter.misread", "query.invalid"].contains(&body["code"].as_str().unwrap()), "{body}");
    }
}

/// The command line polls once, and again only when it is notified of a change.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_waits_on_a_stream() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    let digest = served.asked(&id).await["digest"].clone();
    let ada = served.user("ada", &["platform_ops"], None).await;
    let counted = async |route: &str| {
        let text = served.get("/metrics").await.body.as_str().unwrap_or_default().to_owned();
        let line = text.lines().find(|line| {
            line.starts_with("tenure_http_requests_total") && line.contains(&format!("route=\"{route}\""))
        });
        line.and_then(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    let before = counted("/v1/executions/{id}").await;
    let (url, dir, short) = (served.url.clone(), served.dir.path().to_owned(), id.clone());
    let waiting = tokio::task::spawn_blocking(move || {
        crate::served::Ran::of(crate::served::tenure(&dir).args([
            "--server",
            &url,
            "executions",
            "watch",
            &short,
            "--timeout",
            "60s",
        ]))
    });
    while counted("/v1/executions/{id}/events").await == 0 {
        assert!(!waiting.is_finished(), "it does not read the stream: {:?}", waiting.await);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let asked = counted("/v1/executions/{id}").await - before;
    assert!(asked <= 2, "it polled {asked} times without a change");
    let yes = json!({ "digest": digest, "reason": "order 4711" });
    assert_eq!(served.json_as(&ada, &format!("/v1/approvals/{id}:approve"), yes).await.status, 200);
    let ran = waiting.await.unwrap();
    assert_eq!(ran.exit, 0, "{ran:?}");
    assert!(ran.err.contains("Active"), "{ran:?}");
}
