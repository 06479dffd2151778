//! The progress of executions and their estimated ends, and their log lines.

use crate::served::{NODES, Served, large, small};
use serde_json::{Value, json};
use std::time::Duration;

/// The execution with this id in a list.
async fn listed(served: &Served, id: &str) -> Value {
    let page = served.get("/v1/executions").await.body;
    page["items"].as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone()
}

#[tokio::test]
async fn only_an_open_execution_on_its_way_forward_shows_its_progress() {
    let served = Served::with_nodes().await;
    let id = served.onboard(&large("acme")).await;
    let asked = served.asked(&id).await;

    let progress = &asked["progress"];
    let (done, total) = (progress["done"].as_u64().unwrap(), progress["total"].as_u64().unwrap());
    assert!(0 < done && done < total, "{progress}");
    assert_eq!(progress["current"], json!({ "state": asked["state"], "beat": null }));
    assert_eq!(progress["eta"], Value::Null, "no earlier execution exists");
    assert_eq!(&listed(&served, &id).await["progress"], progress, "a list has the same value");

    let over = served.onboard(&small("brief")).await;
    assert_eq!(served.ended(&over).await["progress"], Value::Null);
    assert_eq!(listed(&served, &over).await["progress"], Value::Null);
}

#[tokio::test]
async fn after_three_completed_executions_the_next_shows_an_estimated_end() {
    let served = Served::start_with(&[("TENURE_SIMULATED_DELAY_MS", "80")]);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let mut first = Vec::new();
    for name in ["one", "two", "three"] {
        first.push(served.onboard(&small(name)).await);
    }
    for id in first {
        assert_eq!(served.ended(&id).await["reason"], "completed");
    }
    // A caller that asked earlier got no estimate, and the cached answer lasts three seconds: as long as the next onboarding takes here.
    tokio::time::sleep(Duration::from_millis(3_100)).await;

    let id = served.onboard(&small("four")).await;
    let told = served.until(&id, |item| item["open"] == false || !item["progress"]["eta"].is_null()).await;

    let eta = told["progress"]["eta"].as_str().unwrap_or_else(|| panic!("{told:#}"));
    let begun = told["created_at"].as_str().unwrap();
    assert!(eta > begun && eta.len() == begun.len(), "{eta} is a moment after {begun}");
    let page = served.get("/v1/executions?open=true").await.body;
    for row in page["items"].as_array().unwrap() {
        assert!(row["progress"]["eta"].is_string(), "{row}");
    }
    served.ended(&id).await;
}

#[tokio::test]
async fn a_line_of_the_log_about_an_execution_names_its_trace() {
    let served = Served::start_logged(&[("TENURE_LOG_FORMAT", "json")]);
    served.post("/v1/fleet:import?cluster=eu-1&region=eu", "text/csv", NODES).await;
    let id = served.onboard(&small("acme")).await;
    served.ended(&id).await;

    let log = std::fs::read_to_string(served.dir.path().join("log.txt")).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut seen = 0;
    for place in lines.flat_map(|line| [line["fields"].clone(), line["span"].clone()]) {
        if place["execution"] == *id {
            assert_eq!(place["trace_id"], *id.replace('-', ""), "{place}");
            seen += 1;
        }
    }
    assert!(seen >= 2, "it was started and finished: {log}");
}
