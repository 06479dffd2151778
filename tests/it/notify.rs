//! Notifications to external receivers: signed, repeated until accepted, and never sent to another address.

use crate::served::Running;
use axum::{
    Router,
    body::Bytes,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse as _, Redirect},
    routing::post,
};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use engine::{Clock as _, Notification};
use ring::hmac;
use rustix::process::Signal;
use serde_json::{Value, json};
use std::{
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};
use store::{Commit, Embedded, Key, Options, Put, Store};

const SECRET: &str = "a secret of more than sixteen bytes";

type Heard = Arc<Mutex<Vec<(HeaderMap, Bytes)>>>;

/// A receiver that is first too busy, then redirects the sender, then accepts.
async fn listener() -> (String, Heard) {
    let heard = Heard::default();
    let ears = heard.clone();
    let hear = move |headers: HeaderMap, body: Bytes| async move {
        if String::from_utf8_lossy(&body).contains("never taken") {
            return StatusCode::BAD_REQUEST.into_response();
        }
        let mut heard = ears.lock().unwrap();
        heard.push((headers, body));
        match heard.len() {
            1 => StatusCode::SERVICE_UNAVAILABLE.into_response(),
            2 => Redirect::temporary("/elsewhere").into_response(),
            _ => StatusCode::NO_CONTENT.into_response(),
        }
    };
    let app = Router::new().route("/hook", post(hear)).route("/elsewhere", post(StatusCode::IM_A_TEAPOT));
    let socket = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", socket.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(socket, app).await });
    (url, heard)
}

fn open(dir: &Path) -> Embedded {
    let dir = dir.join("tenure-data/store");
    std::fs::create_dir_all(&dir).unwrap();
    Embedded::open(&dir, Options::default()).unwrap().store
}

#[tokio::test]
async fn a_signed_notification_is_retried_until_it_is_accepted_and_then_removed() {
    let dir = tempfile::tempdir().unwrap();
    let told = Notification {
        id: "e-1.parked.3".into(),
        kind: "execution.parked".into(),
        reason: None,
        about: "e-1".into(),
        tenant: "acme".into(),
        to: vec!["platform_ops".into()],
        text: "onboarding tenant/acme waits for an operator".into(),
        at: engine::SystemClock.now(),
    };
    let never = Notification {
        id: "a-0.parked.1".into(),
        about: "a-0".into(),
        text: "never taken".into(),
        ..told.clone()
    };
    let put = |told: &Notification| Put {
        key: Key::new("notifications", &told.id),
        body: serde_json::to_vec(told).ok(),
    };
    let documents = vec![put(&never), put(&told)];
    let store = open(dir.path());
    store.commit(Commit { documents, ..Commit::default() }).await.unwrap();
    store.close().await.unwrap();
    drop(store);
    let secret = dir.path().join("secret");
    std::fs::write(&secret, format!("{SECRET}\n")).unwrap();
    let (url, heard) = listener().await;

    let variables =
        [("TENURE_NOTIFY_URL", url.as_str()), ("TENURE_NOTIFY_SECRET_FILE", secret.to_str().unwrap())];
    let running = Running::start(dir.path(), &variables);
    while heard.lock().unwrap().len() < 3 {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // The delivery is complete once the answer has arrived.
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(running.stop(Signal::TERM), Some(0));

    let heard = heard.lock().unwrap().clone();
    assert_eq!(heard.len(), 3, "no repeat after success");
    let (headers, body) = heard.last().unwrap();
    let header = |name: &str| headers[name].to_str().unwrap();
    assert!(heard.iter().all(|(_, other)| other == body), "the same each time");
    let key = hmac::Key::new(hmac::HMAC_SHA256, SECRET.as_bytes());
    let tag = hmac::sign(&key, body);
    let wanted: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(header("tenure-signature"), format!("sha256={wanted}"));
    let mut signed = format!("e-1.parked.3.{}.", header("webhook-timestamp")).into_bytes();
    signed.extend_from_slice(body);
    let wanted = STANDARD.encode(hmac::sign(&key, &signed));
    assert_eq!(
        (header("webhook-id"), header("webhook-signature")),
        ("e-1.parked.3", &*format!("v1,{wanted}"))
    );
    let event: Value = serde_json::from_slice(body).unwrap();
    assert_eq!((&event["specversion"], &event["type"]), (&json!("1.0"), &json!("tenure.execution.parked")));
    assert_eq!((&event["id"], &event["data"]["to"]), (&json!("e-1.parked.3"), &json!(["platform_ops"])));
    let store = open(dir.path());
    let left = async |collection: &str| {
        let page = store.documents(collection, "", None, 10).await.unwrap();
        page.items
            .into_iter()
            .map(|found| serde_json::from_slice(&found.body).unwrap())
            .collect::<Vec<Value>>()
    };
    assert!(left("notifications").await.is_empty(), "each has become a delivery");
    let waiting = left("deliveries").await;
    assert_eq!(waiting.len(), 1, "an undelivered one is stored, and does not block the others");
    assert_eq!(waiting[0]["told"]["id"], "a-0.parked.1");
    assert_eq!(left("deliveries-settled").await.len(), 1);
    store.close().await.unwrap();
}
