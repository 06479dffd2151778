//! The state of the system in `/metrics`.

use crate::served::{Served, large};
use engine::Clock as _;
use reqwest::Method;
use serde_json::json;

/// Returns the value of a series.
fn told(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.unwrap_or_else(|| panic!("{series} is not told: {text}")).parse().unwrap()
}

async fn metrics(served: &Served) -> String {
    let answer = served.send(served.ask(Method::GET, "/metrics")).await;
    answer.body.as_str().unwrap().to_owned()
}

fn seconds() -> f64 {
    std::time::Duration::from_millis(engine::SystemClock.now().0).as_secs_f64()
}

/// A series must exist at zero for an increase to be visible.
#[tokio::test]
async fn every_counter_starts_at_zero() {
    let text = metrics(&Served::start()).await;

    for series in [
        r#"tenure_executions_started_total{workflow="onboarding"}"#,
        r#"tenure_executions_finished_total{workflow="reclaim",outcome="rolled_back"}"#,
        r#"tenure_executions_parked_total{reason="poisoned"}"#,
        r#"tenure_approvals_glass_broken_total{workflow="offboarding"}"#,
        r#"tenure_schedule_occurrences_total{fate="missed"}"#,
        r#"tenure_batch_items_total{result="refused"}"#,
        r#"tenure_promises_ended_total{workflow="reclaim",result="broken"}"#,
        r#"tenure_approvals_ruled_total{workflow="offboarding",ruling="expired"}"#,
        r#"tenure_limit_trips_total{kind="cluster"}"#,
        "tenure_left_alone_total",
        r#"tenure_executions_stuck{reason="compensation_blocked"}"#,
        r#"tenure_engines{state="silent"}"#,
        "tenure_approvals_waiting",
        "tenure_approvals_next_deadline_timestamp_seconds",
        "tenure_reclaims_next_deadline_timestamp_seconds",
        "tenure_reclaims_missed",
    ] {
        assert!(told(&text, series).abs() < f64::EPSILON, "{series}");
    }
    assert!((told(&text, r#"tenure_engines{state="alive"}"#) - 1.0).abs() < f64::EPSILON);
    assert!(text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "it ends once");
}

#[tokio::test]
async fn waiting_approvals_and_free_gpus_are_counted_from_the_store() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    let approval = served.asked(&id).await;
    assert!(!approval["waiting_for"]["approval"].is_null());

    let text = metrics(&served).await;

    let is =
        |series: &str, value: f64| assert!((told(&text, series) - value).abs() < 0.5, "{series}: {text}");
    is("tenure_approvals_waiting", 1.0);
    is(r#"tenure_gpus{cluster="eu-1",model="H100"}"#, 64.0);
    is(r#"tenure_gpus_free{cluster="eu-1",model="H100"}"#, 64.0);
    // Policy allows five days for this approval.
    let left = told(&text, "tenure_approvals_next_deadline_timestamp_seconds") - seconds();
    assert!((4.9..5.0).contains(&(left / 86_400.0)), "{left}");
    assert!(!text.contains("acme"), "no label names a tenant");

    let token = served.user("pia", &["platform_ops"], None).await;
    let wanted = &approval["waiting_for"]["approval"];
    let vote = json!({ "digest": wanted["digest"], "reason": "not now" });
    let path = format!("/v1/approvals/{}:refuse", wanted["id"].as_str().unwrap());
    let voted = served.json_as(&token, &path, vote).await;
    assert_eq!(voted.status, 200, "{}", voted.body);
    let text = metrics(&served).await;
    let ruled = told(&text, r#"tenure_approvals_ruled_total{workflow="onboarding",ruling="refused"}"#);
    assert!((ruled - 1.0).abs() < 0.5, "{text}");
}

/// The names and types that common dashboards expect.
#[tokio::test]
async fn process_disk_and_route_metrics_have_the_prometheus_format() {
    let served = Served::start();
    served.get("/v1/tenants").await;
    let text = metrics(&served).await;

    for told in [
        "# TYPE tenure_store_commits counter",
        "# TYPE tenure_store_sync_seconds histogram",
        "# TYPE process_cpu_seconds counter",
        "tenure_store_group_commits_bucket{le=\"1.0\"}",
        "tenure_http_request_seconds_count{method=\"GET\",route=\"/v1/tenants\"} 1",
        &format!("tenure_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")),
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    let beyond = |series: &str, least: f64| assert!(told(&text, series) > least, "{series}: {text}");
    beyond("tenure_store_disk_free_bytes", 1e6);
    beyond("tenure_store_sync_seconds_count", 0.0);
    beyond("process_resident_memory_bytes", 1e6);
    beyond("process_open_fds", 3.0);
    let age = seconds() - told(&text, "process_start_time_seconds");
    assert!((-2.0..600.0).contains(&age), "{age}");
}
