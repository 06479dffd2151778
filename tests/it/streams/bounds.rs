//! The limits on streams: their number, their end, and slow readers, which delay no commit.

use super::{Stream, ask};
use crate::served::{Served, large};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

#[tokio::test]
async fn streams_above_the_limit_are_refused_until_another_one_ends() {
    let served = Served::start_with(&[("TENURE_HTTP_STREAMS", "3"), ("TENURE_HTTP_STREAMS_PER_TOKEN", "2")]);
    let admin = served.admin.clone();
    let (vera, max) =
        (served.user("vera", &["auditor"], None).await, served.user("max", &["auditor"], None).await);
    let one = Stream::open(&served, &admin, "/v1/watch", "").await;
    let _two = Stream::open(&served, &admin, "/v1/approvals/events", "").await;
    let _three = Stream::open(&served, &vera, "/v1/watch", "").await;
    for (token, bound) in [(&admin, "http.streams"), (&max, "http.streams")] {
        let refused = ask(&served, token, "/v1/watch", "").await;
        assert_eq!(refused.status(), 429);
        assert!(refused.headers()["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 0);
        let body: Value = refused.json().await.unwrap();
        assert_eq!(body["code"], "stream.too_many");
        assert!(body["detail"].as_str().unwrap().contains(bound), "{body}");
    }

    drop(one);
    let began = Instant::now();
    while ask(&served, &max, "/v1/watch", "").await.status() != 200 {
        assert!(began.elapsed() < Duration::from_secs(20), "the place is never free");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_removed_user_receives_no_further_events() {
    let served = Served::start();
    let olga = served.user("olga", &["platform_ops"], None).await;
    let mut stream = Stream::open(&served, &olga, "/v1/watch", "").await;
    let mut other = Stream::open(&served, &served.admin, "/v1/watch", "").await;
    assert_eq!((stream.must().await.name.as_str(), other.must().await.name.as_str()), ("present", "present"));
    let began = Instant::now();
    let removed = served.ask(reqwest::Method::DELETE, "/v1/users/olga").bearer_auth(&served.admin);
    assert!(served.send(removed).await.status.is_success());
    let end = stream.must().await;
    assert_eq!((end.name.as_str(), &end.data["why"]), ("end", &json!("token")));
    assert_eq!(stream.next().await, None);
    assert!(began.elapsed() < Duration::from_secs(4), "{:?}", began.elapsed());
    assert!(other.is_silent(Duration::from_millis(300)).await, "other streams continue");
    assert_eq!(ask(&served, &olga, "/v1/watch", "").await.status(), 401);
}

/// A client that does not read leaves the server unaffected, and must start from the beginning once it reads again.
#[tokio::test]
async fn a_slow_watcher_starts_again_and_delays_no_commit() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    served.asked(&id).await;
    let mut slow = Stream::open(&served, &served.admin, "/v1/watch", "").await;
    let mut quick = Stream::open(&served, &served.admin, "/v1/watch", "").await;
    assert_eq!((slow.must().await.name.as_str(), quick.must().await.name.as_str()), ("present", "present"));

    let order = json!({ "reason": "x".repeat(15 << 10) });
    let mut slowest = Duration::ZERO;
    for n in 0..1_800 {
        let verb = if n % 2 == 0 { "pause" } else { "resume" };
        let began = Instant::now();
        let sent = served.json_as(&served.admin, &format!("/v1/executions/{id}:{verb}"), order.clone()).await;
        assert_eq!(sent.status, 200, "{}", sent.body);
        slowest = slowest.max(began.elapsed());
        assert_eq!(quick.must().await.name, "changed", "{n}");
    }
    assert!(slowest < Duration::from_secs(5), "{slowest:?}");

    let told = slow.until(|told| told.name != "changed").await;
    let reset = told.last().unwrap();
    assert_eq!((reset.name.as_str(), &reset.data["why"]), ("reset", &json!("slow")), "after {}", told.len());
    assert!(told.len() < 1_800);
    let present = slow.must().await;
    assert_eq!((present.name.as_str(), &present.data["items"][0]["id"]), ("present", &json!(id)));
    let sent = served
        .json_as(&served.admin, &format!("/v1/executions/{id}:pause"), json!({ "reason": "tea" }))
        .await;
    assert_eq!(sent.status, 200);
    assert_eq!(slow.must().await.data["execution"]["phase"], "paused", "and resumes from there");
    eprintln!(
        "slowest of 1800 orders beside a watcher who takes nothing: {slowest:?}; it was told {} of them",
        told.len()
    );
}
