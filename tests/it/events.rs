//! HTTP: events that request work, single and in batches. Against a real server.

use crate::{
    domain_http::{ACME, items, with_acme},
    served::seen,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use reqwest::Method;
use serde_json::{Value, json};

#[tokio::test]
async fn an_event_can_request_only_what_its_sender_is_permitted() {
    let served = with_acme().await;
    let send = async |token: &str, id: &str, kind: &str, data: Value| {
        let event = json!({ "specversion": "1.0", "id": id, "source": "/s", "type": kind, "data": data });
        served.post_as(token, "/v1/events", "application/cloudevents+json", &event.to_string()).await
    };
    seen(&served, ACME).await;
    let work = json!({ "tenant": ACME, "workspace": "research", "name": "w", "requests": { "gpu/H100": 1 } });
    let admitted = send(&served.admin, "1", "workload.requested", work).await;
    assert_eq!(
        (admitted.status.as_u16(), &admitted.body["answer"]),
        (200, &json!("admit")),
        "{}",
        admitted.body
    );
    let ended = send(&served.admin, "2", "workload.finished", json!({ "tenant": ACME, "name": "w" })).await;
    assert_eq!((ended.status.as_u16(), &ended.body["state"]), (200, &json!("finished")), "{}", ended.body);

    let leave = json!({ "tenant": ACME, "basis": "tenant_request" });
    let first = send(&served.admin, "3", "tenant.offboard.requested", leave.clone()).await;
    let again = send(&served.admin, "3", "tenant.offboard.requested", leave.clone()).await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 200), "{}", first.body);
    assert_eq!(first.id(), again.id());
    let security = served.user("sara", &["security"], None).await;
    assert_eq!(
        send(&security, "4", "tenant.offboard.requested", leave.clone()).await.code(),
        "auth.forbidden"
    );
    let other = served.user("olga", &["tenant_owner"], Some("bravo")).await;
    for (kind, data) in
        [("tenant.offboard.requested", leave), ("workload.finished", json!({ "tenant": ACME, "name": "w" }))]
    {
        assert_eq!(send(&other, "5", kind, data).await.code(), "auth.foreign_tenant", "{kind}");
    }
}

#[tokio::test]
async fn every_encoding_of_a_cloudevent_is_accepted() {
    let served = with_acme().await;
    seen(&served, ACME).await;
    let send = async |more: Value| {
        let mut event =
            json!({ "specversion": "1.0", "id": "1", "source": "/s", "type": "workload.requested" });
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let event = event.to_string();
        served.post_as(&served.admin, "/v1/events", "application/cloudevents+json", &event).await
    };
    let work = json!({ "tenant": ACME, "workspace": "research", "name": "w", "requests": { "gpu/H100": 1 } })
        .to_string();
    let encoded = STANDARD.encode(&work);

    let admitted = send(json!({ "data_base64": encoded })).await;
    let yaml = send(json!({ "data_base64": encoded, "datacontenttype": "application/yaml" })).await;
    let both = send(json!({ "data_base64": encoded, "data": {} })).await;
    let none = send(json!({ "data_base64": "%" })).await;
    let other = send(json!({ "data_base64": encoded, "datacontenttype": "image/png" })).await;

    assert_eq!(
        (admitted.status.as_u16(), &admitted.body["answer"]),
        (200, &json!("admit")),
        "{}",
        admitted.body
    );
    assert_eq!(yaml.status, 200, "a repeat: {}", yaml.body);
    for wrong in [both, none] {
        assert_eq!(wrong.status, 400, "{}", wrong.body);
        assert_eq!(wrong.body["errors"][0]["pointer"], "/data_base64", "{}", wrong.body);
    }
    assert_eq!(other.code(), "request.media_type");

    let leave = json!({ "tenant": ACME, "basis": "tenant_request" }).to_string();
    let binary = async |source: &str| {
        let request = served.ask(Method::POST, "/v1/events").bearer_auth(&served.admin);
        let request = request.header("content-type", "application/json").header("ce-specversion", "1.0");
        let request = request.header("ce-type", "tenant.offboard.requested").header("ce-id", "1");
        served.send(request.header("ce-source", source).body(leave.clone())).await
    };
    let first = binary("/caf%C3%A9%20%231").await;
    let again = binary("\"/caf%c3%a9 #1\"").await;
    assert_eq!((first.status.as_u16(), again.status.as_u16()), (202, 200), "{} {}", first.body, again.body);
    assert_eq!(first.id(), again.id(), "one source in two spellings");
}

#[tokio::test]
async fn several_events_get_the_same_answers_as_single_events() {
    const BATCH: &str = "application/cloudevents-batch+json";
    let served = with_acme().await;
    seen(&served, ACME).await;
    let event = |id: &str, kind: &str, data: Value| json!({ "specversion": "1.0", "id": id, "source": "/s", "type": kind, "data": data });
    let work = json!({ "tenant": ACME, "workspace": "research", "name": "w", "requests": { "gpu/H100": 1 } });
    let leave = event("2", "tenant.offboard.requested", json!({ "tenant": ACME, "basis": "tenant_request" }));
    let events =
        json!([event("1", "workload.requested", work), event("3", "no.such", json!({})), leave, leave]);
    let sara = served.user("sara", &["security", "tenant_owner"], None).await;
    let answer = served.post_as(&sara, "/v1/events", BATCH, &events.to_string()).await;
    let status: Vec<_> = items(&answer).iter().map(|item| item["status"].as_u64().unwrap()).collect();
    assert_eq!(status, [200, 422, 202, 200], "{}", answer.body);
    let bodies: Vec<_> = items(&answer).iter().map(|item| &item["body"]).collect();
    assert_eq!((&bodies[0]["answer"], &bodies[1]["code"]), (&json!("admit"), &json!("event.unknown_type")));
    assert_eq!(bodies[2]["id"], bodies[3]["id"], "a repeated event starts nothing");

    let before = items(&served.get("/v1/executions").await).len();
    let broken = json!([event("4", "tenant.offboard.requested", json!({ "tenant": ACME })), { "id": "5" }]);
    let refused = served.post("/v1/events", BATCH, &broken.to_string()).await;
    assert_eq!((refused.status.as_u16(), &refused.body["errors"][0]["pointer"]), (400, &json!("/1/source")));
    assert_eq!(served.post("/v1/events", BATCH, "[]").await.status, 400);
    assert_eq!(items(&served.get("/v1/executions").await).len(), before, "no execution was started");

    let eve = served.user("eve", &["security"], None).await;
    let denied = served.post_as(&eve, "/v1/events", BATCH, &json!([leave]).to_string()).await;
    assert_eq!((denied.status.as_u16(), &items(&denied)[0]["body"]["code"]), (200, &json!("auth.forbidden")));
    for _ in 0..500 {
        let found = served.get("/v1/audit?event=access.denied").await.body.to_string();
        if found.contains("eve") && found.contains("/v1/events") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("no refusal in a batch is on record");
}
