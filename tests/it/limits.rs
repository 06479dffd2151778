//! Limits over HTTP and from the command line. Against a real server.

use crate::served::{Served, small};
use serde_json::json;

fn said(served: &Served, arguments: &[&str]) -> String {
    let ran = served.run(arguments);
    assert_eq!(ran.exit, 0, "{arguments:?}: {ran:?}");
    ran.out
}

/// Work for a closed cluster waits, reports why and which commands it accepts, and continues when the cluster is
/// opened.
#[tokio::test]
async fn work_at_a_closed_cluster_shows_why_it_waits_and_continues_when_the_cluster_opens() {
    let served = Served::with_nodes().await;
    said(&served, &["limits", "close", "cluster/eu-1", "--reason", "the switch is being changed"]);

    let id = served.onboard(&small("acme")).await;
    let item = served.until(&id, |item| item["waiting_for"]["limits"][0].is_object()).await;

    let waits = &item["waiting_for"]["limits"][0];
    let why = "waits for the limit cluster/eu-1: closed by admin: the switch is being changed";
    assert_eq!((&waits["code"], &waits["why"]), (&json!("limit.closed"), &json!(why)), "{item}");
    assert_eq!(
        item["phase"], "forward",
        "it is not parked, and needs only the operator who closed the cluster"
    );
    assert!(served.run(&["executions", "show", &id]).err.contains(why));
    let row = served.run(&["limits", "show", "cluster/eu-1", "-o", "json"]).json();
    assert!(row["state"] == "closed" && row["queued"].as_u64() >= Some(1), "{row}");
    assert!(said(&served, &["limits", "list"]).contains("closed"));
    let metrics = reqwest::get(format!("{}/metrics", served.url)).await.unwrap().text().await.unwrap();
    assert!(
        metrics.contains("tenure_limit_waiting") && !metrics.contains("tenure_limit_waiting 0"),
        "{metrics}"
    );
    let put_offs = "tenure_limit_put_offs_total{kind=\"cluster\"} ";
    assert!(metrics.contains(put_offs) && !metrics.contains(&format!("{put_offs}0\n")), "{metrics}");

    said(&served, &["limits", "open", "cluster/eu-1"]);

    assert_eq!(served.ended(&id).await["reason"], "completed");
    assert_eq!(served.run(&["limits", "open", "cluster/eu-1"]).exit, 5, "nothing can be opened");
    assert_eq!(served.get("/v1/limits").await.body["items"], json!([]), "and nothing is stored");
}

/// Every key of every attempt allows one at a time: the work is slower and complete.
#[tokio::test]
async fn work_runs_under_the_tightest_limits() {
    let served = Served::with_nodes().await;
    for key in ["cluster/*", "tenant/*", "action/*"] {
        said(&served, &["limits", "set", key, "--concurrency", "1", "--rate", "1000/1s", "--burst", "5"]);
    }

    let ids = [served.onboard(&small("alpha")).await, served.onboard(&small("bravo")).await];

    for id in ids {
        assert_eq!(served.ended(&id).await["reason"], "completed");
    }
    let rows = served.get("/v1/limits").await.body;
    assert!(rows["items"].as_array().unwrap().iter().all(|row| row["in_use"] == 0), "{rows}");
}

#[tokio::test]
async fn limits_are_set_shown_and_removed() {
    let served = Served::start();
    let set = [
        "limits",
        "set",
        "cluster/eu-*",
        "--concurrency",
        "4",
        "--rate",
        "60/1m",
        "--burst",
        "10",
        "--breaker-after",
        "3",
        "-o",
        "json",
    ];
    let row = served.run(&set).json();
    let breaker = json!({ "after": 3, "span": "5s", "cap": "30s" });
    for (field, value) in [
        ("key", json!("cluster/eu-*")),
        ("concurrency", json!(4)),
        ("rate", json!("60/1m")),
        ("burst", json!(10)),
        ("breaker", breaker),
        ("set_by", json!("admin")),
        ("state", json!("open")),
    ] {
        assert_eq!(row[field], value, "{row}");
    }
    assert!(said(&served, &["limits", "list"]).contains("60/1m"));

    for (field, body) in [
        ("key", json!({ "key": "eu-1", "concurrency": 1 })),
        ("concurrency", json!({ "key": "cluster/eu-1" })),
        ("rate", json!({ "key": "cluster/eu-1", "rate": "sixty" })),
        ("burst", json!({ "key": "cluster/eu-1", "concurrency": 1, "burst": 2 })),
        ("breaker/span", json!({ "key": "cluster/eu-1", "breaker": { "span": "soon" } })),
    ] {
        let answer = served.json_as(&served.admin, "/v1/limits", body).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (422, "document.invalid"), "{}", answer.body);
        assert_eq!(answer.body["errors"][0]["pointer"], format!("/{field}"), "{}", answer.body);
    }
    let auditor = served.user("ann", &["auditor"], None).await;
    assert_eq!(served.get_as(&auditor, "/v1/limits").await.status, 200);
    let refused =
        served.json_as(&auditor, "/v1/limits", json!({ "key": "cluster/eu-1", "concurrency": 1 })).await;
    assert_eq!(refused.code(), "auth.forbidden");

    let governed = served.run(&["limits", "show", "cluster/eu-1", "-o", "json"]).json();
    assert_eq!((&governed["key"], &governed["limit"]), (&json!("cluster/eu-1"), &json!("cluster/eu-*")));
    assert_eq!(served.run(&["limits", "show", "cluster/us-1"]).exit, 3);
    let pattern = served.run(&["limits", "close", "cluster/*", "--reason", "x"]);
    assert!(pattern.exit == 1 && pattern.err.contains("close each key, such as cluster/eu-1"), "{pattern:?}");
    for key in ["cluster/nope", "tenant/nope", "action/Nope"] {
        let closed = served.run(&["limits", "close", key, "--reason", "x", "--for", "1s"]);
        let there_is_no = format!("warning: there is no {}", key.replace('/', " "));
        assert!(closed.exit == 0 && closed.err.contains(&there_is_no), "{closed:?}");
    }
    for key in ["action/CreateNamespace", "licence/solver"] {
        assert_eq!(served.run(&["limits", "close", key, "--reason", "x", "--for", "1s"]).err, "");
    }

    assert_eq!(said(&served, &["limits", "delete", "cluster/eu-*"]), "cluster/eu-* deleted\n");
    assert_eq!(served.run(&["limits", "delete", "cluster/eu-*"]).exit, 3);
    assert_eq!(served.run(&["limits", "show", "cluster/eu-*"]).exit, 3);
}
