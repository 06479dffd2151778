//! Schedules over HTTP and from the command line. Against a real server.

use crate::{
    domain_http::{ACME, items, with_acme},
    served::{Answer, Served},
};
use reqwest::Method;
use serde_json::{Value, json};
use std::{fs, time::Duration};

/// A schedule that reclaims overdue loans. Each run finds no loan and ends by itself.
fn overdue(cron: &str) -> Value {
    json!({
        "cron": cron, "zone": "Europe/Berlin", "skipped_hour": "shift", "repeated_hour": "last",
        "start": { "workflow": "reclaim", "data": { "tenant": ACME, "resource": "gpu/H100", "overdue": true } },
    })
}

async fn put(served: &Served, token: &str, name: &str, body: &Value) -> Answer {
    let asked = served.ask(Method::PUT, &format!("/v1/schedules/{name}")).bearer_auth(token).json(body);
    served.send(asked).await
}

async fn post(served: &Served, path: &str, body: Value) -> Answer {
    served.json_as(&served.admin, &format!("/v1/schedules/{path}"), body).await
}

/// Returns the occurrences of a schedule, once `hold` is true.
async fn occurrences(served: &Served, name: &str, hold: impl Fn(&[Value]) -> bool) -> Vec<Value> {
    for _ in 0..400 {
        let found =
            items(&served.get(&format!("/v1/schedules/{name}/occurrences?origin=clock")).await).clone();
        if hold(&found) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("{}", served.get(&format!("/v1/schedules/{name}")).await.body);
}

#[tokio::test]
async fn a_schedule_is_set_shown_changed_and_deleted_and_its_history_stays() {
    let served = with_acme().await;
    let set = put(&served, &served.admin, "nightly", &overdue("30 2 * * *")).await;
    assert_eq!((set.status.as_u16(), &set.body["version"]), (201, &json!(1)), "{}", set.body);
    assert_eq!((&set.body["overlap"], &set.body["catch_up"]), (&json!("skip"), &json!("latest")));
    let firing = set.body["firing"].as_array().unwrap();
    assert_eq!(firing.len(), 5);
    let local = firing[0]["local"].as_str().unwrap();
    assert!(local.contains("T02:30:00+0"), "{local}");
    assert_eq!(set.body["next"], firing[0]["utc"]);

    let stale = served.ask(Method::PUT, "/v1/schedules/nightly").header("if-match", "\"7\"");
    let stale = served.send(stale.bearer_auth(&served.admin).json(&overdue("* * * * *"))).await;
    assert_eq!((stale.status.as_u16(), stale.code()), (412, "schedule.changed"), "{}", stale.body);
    let changed = put(&served, &served.admin, "nightly", &overdue("*/10 * * * * *")).await;
    assert_eq!((changed.status.as_u16(), &changed.body["version"]), (200, &json!(2)), "{}", changed.body);

    let fired = |all: &[Value]| all.iter().any(|one| one["fate"] == "fired" && one["outcome"] == "completed");
    let all = occurrences(&served, "nightly", fired).await;
    let first = all.iter().find(|one| one["fate"] == "fired").unwrap();
    let execution = served.get(&format!("/v1/executions/{}", first["execution"].as_str().unwrap())).await;
    assert_eq!(execution.body["requested_by"], "admin");
    let metrics = reqwest::get(format!("{}/metrics", served.url)).await.unwrap().text().await.unwrap();
    let fired = r#"tenure_schedule_occurrences_total{fate="fired"} "#;
    assert!(metrics.contains(fired) && !metrics.contains(&format!("{fired}0\n")), "{metrics}");
    assert!(metrics.contains("tenure_schedule_lateness_seconds_count"), "{metrics}");

    let asked = || served.ask(Method::DELETE, "/v1/schedules/nightly").bearer_auth(&served.admin);
    assert_eq!(served.send(asked()).await.status, 204);
    assert_eq!(served.send(asked()).await.status, 404);
    assert_eq!(served.get("/v1/schedules/nightly").await.status, 404);
    let kept = served.get("/v1/schedules/nightly/occurrences?fate=fired&from=2026-01-01T00:00:00Z").await;
    assert!(!items(&kept).is_empty(), "{}", kept.body);
}

#[tokio::test]
async fn an_invalid_schedule_is_refused_with_the_field_and_needs_the_permissions_of_its_user() {
    let served = with_acme().await;
    let with = |name: &str, value: Value| {
        let mut body = overdue("0 2 * * *");
        body[name] = value;
        body
    };
    let wrong = [
        (with("cron", json!("every day")), "not a cron expression"),
        (with("cron", json!("30 25 * * *")), "cron: \\\"30 25 * * *\\\" is not a cron expression: hour"),
        (with("zone", json!("Berlin")), "zone: \\\"Berlin\\\" is not a time zone"),
        (with("repeated_hour", json!(null)), "skipped_hour, repeated_hour: clocks change in Europe/Berlin"),
        (with("overlap", json!("queue")), "buffer_one"),
        (with("jitter", json!("2d")), "may not be moved past the next"),
        (with("exclude", json!([{ "from": "2026-13-01" }])), "2026-13-01"),
        (with("speed", json!(1)), "speed"),
        (with("start", json!({ "workflow": "onboarding" })), "use one of: reclaim"),
        (with("start", json!({ "workflow": "reclaim", "data": { "tenant": ACME } })), "one cause"),
    ];
    for (body, said) in wrong {
        let answer = put(&served, &served.admin, "nightly", &body).await;
        assert!(answer.status.is_client_error(), "{}", answer.body);
        assert!(answer.body.to_string().contains(said), "{said}: {}", answer.body);
    }
    let auditor = served.user("vera", &["auditor"], None).await;
    let refused = put(&served, &auditor, "nightly", &overdue("0 2 * * *")).await;
    assert_eq!((refused.status.as_u16(), refused.code()), (403, "auth.forbidden"));
    assert_eq!(served.get_as(&auditor, "/v1/schedules").await.status, 200);
    assert_eq!(served.get("/v1/schedules/nightly").await.status, 404, "no schedule was set");
    assert_eq!(served.run(&["schedules", "occurrences", "nightly"]).exit, 3, "and it has no occurrences");

    // A user's schedule starts only what the user may start, and only for as long as they may.
    let olga = served.user("olga", &["platform_ops"], None).await;
    assert_eq!(put(&served, &olga, "hers", &overdue("0 2 * * *")).await.status, 201);
    let remove = served.ask(Method::DELETE, "/v1/users/olga").bearer_auth(&served.admin);
    assert_eq!(served.send(remove).await.status, 204);
    let failed = post(&served, "hers:trigger", json!({})).await;
    assert_eq!((failed.status.as_u16(), &failed.body["fate"]), (202, &json!("failed")), "{}", failed.body);
    assert!(
        failed.body["reason"].as_str().unwrap().contains("olga, who set the schedule, is no longer a user")
    );
}

#[tokio::test]
async fn a_built_in_schedule_can_be_paused_and_triggered_but_not_changed() {
    let served = with_acme().await;
    for (method, path) in [(Method::PUT, "/v1/schedules/reclaim"), (Method::DELETE, "/v1/schedules/drift")] {
        let asked = served.ask(method, path).bearer_auth(&served.admin).json(&overdue("0 2 * * *"));
        let answer = served.send(asked).await;
        assert_eq!((answer.status.as_u16(), answer.code()), (409, "schedule.built_in"), "{}", answer.body);
    }
    let spanless = json!({ "from": "2026-01-01T00:00:00Z", "to": "2026-01-02T00:00:00Z" });
    assert_eq!(post(&served, "drift:backfill", spanless).await.code(), "schedule.built_in");
    assert_eq!(post(&served, "drift:pause", json!({})).await.code(), "request.reason_missing");
    let paused = post(&served, "drift:pause", json!({ "reason": "the cluster is being moved" })).await;
    assert_eq!((&paused.body["paused"]["by"], &paused.body["next"]), (&json!("admin"), &json!(null)));
    assert_eq!(post(&served, "drift:pause", json!({ "reason": "x" })).await.code(), "schedule.already");
    assert_eq!(post(&served, "drift:trigger", json!({})).await.status, 202, "a manual trigger");
    let swept = async || items(&served.get("/v1/sweeps?sweep=drift").await).len();
    for _ in 0..400 {
        if swept().await > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert_eq!(swept().await, 1);
    let ended = async || {
        let rows = served.get("/v1/schedules/drift/occurrences").await;
        items(&rows).iter().any(|row| row["outcome"] == "completed")
    };
    for _ in 0..400 {
        if ended().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    assert!(ended().await, "its end is recorded");
    assert_eq!(post(&served, "drift:resume", json!({})).await.body["paused"], json!(null));
}

#[tokio::test]
async fn schedules_are_controlled_from_the_command_line() {
    let served = with_acme().await;
    let file = served.dir.path().join("nightly.yaml");
    // An incident stays open until it is reviewed, so the next occurrence waits for it.
    let text = "cron: 0 30 2 * * *\nzone: America/New_York\nskipped_hour: skip\nrepeated_hour: first\n\
        overlap: buffer_all\nbuffer: 3\njitter: 10m\nexclude:\n  - { from: 2026-12-24, to: 2026-12-26, why: freeze }\n\
        start:\n  workflow: incident_response\n  data: { kind: other, tenants: [acme], what: drill, evidence: quarterly }\n";
    fs::write(&file, text).unwrap();
    let set = served.run(&["schedules", "set", "drill", "-f", file.to_str().unwrap()]);
    assert_eq!(set.exit, 0, "{set:?}");
    let shown = served.run(&["schedules", "show", "drill"]);
    let next: Vec<&str> = shown.out.lines().filter(|line| line.contains("T02:30:00-0")).collect();
    assert_eq!(next.len(), 5, "{}", shown.out);
    assert!(next.iter().all(|line| line.contains("Z  started ")), "{}", shown.out);
    let list = served.run(&["schedules", "list"]);
    assert!(list.out.contains("drill") && list.out.contains("incident_response"), "{}", list.out);

    let one = served.run(&["schedules", "trigger", "drill", "-o", "json"]).json();
    assert_eq!((&one["fate"], &one["by"]), (&json!("fired"), &json!("admin")), "{one}");
    let two = served.run(&["schedules", "trigger", "drill", "-o", "json"]).json();
    assert_eq!(two["fate"], "buffered", "{two}");
    let nominal = two["nominal"].as_str().unwrap();
    let skipped =
        served.run(&["schedules", "skip", "drill", nominal, "--reason", "one will do", "-o", "json"]);
    assert_eq!(skipped.json()["fate"], "skipped", "{skipped:?}");
    assert_eq!(served.run(&["schedules", "skip", "drill", nominal]).exit, 5);

    let span = ["schedules", "backfill", "drill", "--from", "2026-03-07T00:00:00Z", "--to"];
    let back = served.run(&[&span[..], &["2026-03-10T00:00:00Z", "-o", "json"]].concat());
    assert_eq!(back.exit, 0, "{back:?}");
    assert_eq!(served.run(&[&span[..], &["2126-03-10T00:00:00Z"]].concat()).exit, 1);
    let paused = served.run(&["schedules", "pause", "drill", "--reason", "enough"]);
    assert!(paused.out.contains("PAUSED since") && paused.out.contains("by admin: enough"), "{paused:?}");
    assert_eq!(served.run(&["schedules", "resume", "drill"]).exit, 0);
    let listed = served.run(&["schedules", "occurrences", "drill", "--where", "fate=skipped"]);
    assert!(listed.out.contains("by admin: one will do"), "{}", listed.out);
    assert_eq!(served.run(&["schedules", "delete", "drill"]).exit, 0);
    assert_eq!(served.run(&["schedules", "show", "drill"]).exit, 3);
}
