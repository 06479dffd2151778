//! A stopping server, as load balancers and clients see it.

use crate::served::Running;
use reqwest::{Client, Method, header::CONNECTION};
use rustix::process::Signal;
use serde_json::json;
use std::time::{Duration, Instant};

/// `/readyz` fails at once. All other requests are answered until the grace period ends, and each connection is closed
/// with its answer, so that no request is cut off.
#[tokio::test]
async fn a_stopping_server_is_not_ready_and_answers_during_its_grace_period() {
    program::install_tls();
    let dir = tempfile::tempdir().unwrap();
    let server = Running::start(dir.path(), &[("TENURE_HTTP_GRACE", "1s")]);
    let admin = std::fs::read_to_string(dir.path().join("tenure-data/admin.token")).unwrap();
    let (client, url) = (Client::new(), server.url.clone());
    let ask = async |method: Method, path: &str, name: Option<&str>| {
        let asked = client.request(method, format!("{url}{path}")).bearer_auth(admin.trim());
        let asked = match name {
            Some(name) => asked.json(&json!({ "name": name, "roles": ["auditor"] })),
            None => asked,
        };
        let answer = asked.send().await.unwrap();
        (answer.status().as_u16(), answer.headers().get(CONNECTION).is_some_and(|said| said == "close"))
    };
    assert_eq!(ask(Method::GET, "/readyz", None).await, (200, false));

    let began = Instant::now();
    let ending = tokio::task::spawn_blocking(move || server.stop(Signal::TERM));
    while ask(Method::GET, "/readyz", None).await.0 == 200 {
        assert!(began.elapsed() < Duration::from_millis(900), "it does not report the stop");
    }
    assert_eq!(ask(Method::GET, "/readyz", None).await, (503, true));
    assert_eq!(ask(Method::GET, "/livez", None).await, (200, true));
    assert_eq!(ask(Method::GET, "/v1/tenants", None).await, (200, true));
    let (status, closed) = ask(Method::POST, "/v1/users", Some("vera")).await;
    assert!((200..300).contains(&status) && closed, "{status}");

    assert_eq!(ending.await.unwrap(), Some(0));
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}
