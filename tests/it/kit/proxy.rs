//! The kit's proxy injects every configured fault, and is otherwise transparent.

use axum::{
    Router,
    extract::State,
    http::HeaderMap,
    routing::{get, post},
};
use reqwest::{Client, StatusCode};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};
use tests::kit::{
    Trouble,
    proxy::{Fault, Proxy},
};
use tokio::net::TcpListener;

type Done = Arc<AtomicU32>;

/// A server that counts its requests, and a proxy in front of it.
async fn stage() -> (Done, Proxy, Client) {
    let done = Done::default();
    let echo = |headers: HeaderMap| async move { format!("{:?}", headers.get("authorization")) };
    let act = |State(done): State<Done>, body: String| async move {
        done.fetch_add(1, Ordering::SeqCst);
        format!("done: {body}")
    };
    let router = Router::new().route("/", get(echo)).route("/act", post(act)).with_state(done.clone());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await });
    let proxy = Proxy::before(&format!("http://{address}")).await.unwrap();
    (done, proxy, Client::builder().no_proxy().timeout(Duration::from_secs(10)).build().unwrap())
}

async fn act(proxy: &Proxy, client: &Client) -> Result<(StatusCode, String), reqwest::Error> {
    let answer = client.post(format!("{}/act?a=1", proxy.url())).body("it").send().await?;
    let status = answer.status();
    Ok((status, answer.text().await?))
}

#[tokio::test]
async fn without_faults_the_proxy_changes_nothing() {
    let (done, proxy, client) = stage().await;

    let answer = client.get(proxy.url()).header("authorization", "Bearer t").send().await.unwrap();

    assert_eq!(answer.text().await.unwrap(), "Some(\"Bearer t\")");
    assert_eq!(act(&proxy, &client).await.unwrap(), (StatusCode::OK, "done: it".to_owned()));
    assert_eq!((done.load(Ordering::SeqCst), proxy.seen()), (1, 2));
}

#[tokio::test]
async fn a_changing_request_or_its_answer_is_lost_once() {
    let (done, proxy, client) = stage().await;

    proxy.trouble(Trouble::LoseRequest).await.unwrap();
    assert!(client.get(proxy.url()).send().await.is_ok(), "a read is forwarded");
    assert!(act(&proxy, &client).await.is_err());
    assert_eq!(done.load(Ordering::SeqCst), 0);
    assert!(act(&proxy, &client).await.is_ok());

    proxy.trouble(Trouble::LoseAnswer).await.unwrap();
    assert!(act(&proxy, &client).await.is_err());
    assert_eq!(done.load(Ordering::SeqCst), 2, "it took effect");
    assert!(act(&proxy, &client).await.is_ok());

    proxy.fault(Fault::CutAfter(3)).await.unwrap();
    assert!(act(&proxy, &client).await.is_err(), "cut off after three bytes");
    assert!(act(&proxy, &client).await.is_ok());

    proxy.trouble(Trouble::HalfDone).await.unwrap();
    assert!(act(&proxy, &client).await.is_ok());
    assert!(act(&proxy, &client).await.is_err());
    assert!(client.get(proxy.url()).send().await.is_err());
    proxy.trouble(Trouble::Calm).await.unwrap();
    assert!(act(&proxy, &client).await.is_ok());
    assert_eq!(done.load(Ordering::SeqCst), 7);
}

/// The held request arrives after the events in between, and other requests pass it.
#[tokio::test]
async fn a_request_is_delayed_until_it_is_released() {
    let (done, proxy, client) = stage().await;
    let held = proxy.hold(|asked| asked.target.contains("/act"));

    let meanwhile = held.after(async {
        let other = client.get(proxy.url()).send().await.unwrap().status();
        (other, done.load(Ordering::SeqCst))
    });
    let (acted, meanwhile) = tokio::join!(act(&proxy, &client), meanwhile);

    assert_eq!(meanwhile.unwrap(), (StatusCode::OK, 0));
    assert_eq!(acted.unwrap(), (StatusCode::OK, "done: it".to_owned()));
    assert!(act(&proxy, &client).await.is_ok(), "only one is held");
    assert_eq!(done.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_proxy_answers_instead_of_the_server_and_changes_nothing() {
    let (done, proxy, client) = stage().await;

    proxy.trouble(Trouble::Throttle(Duration::from_millis(6_500))).await.unwrap();
    let away = client.post(format!("{}/act", proxy.url())).send().await.unwrap();
    assert_eq!(
        (away.status(), away.headers()["retry-after"].to_str().unwrap()),
        (StatusCode::TOO_MANY_REQUESTS, "7")
    );
    for (trouble, status) in [
        (Trouble::Deny, StatusCode::FORBIDDEN),
        (Trouble::NotSupported, StatusCode::NOT_FOUND),
        (Trouble::Garbage, StatusCode::OK),
    ] {
        proxy.trouble(trouble).await.unwrap();
        let answer = client.post(format!("{}/act", proxy.url())).send().await.unwrap();
        assert_eq!(answer.status(), status, "{trouble:?}");
        assert!(serde_json::from_str::<serde_json::Value>(&answer.text().await.unwrap()).is_err());
    }
    assert_eq!(done.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn while_the_proxy_is_down_connections_are_refused() {
    let (done, proxy, client) = stage().await;

    proxy.trouble(Trouble::Down).await.unwrap();
    assert!(act(&proxy, &client).await.unwrap_err().is_connect());
    proxy.trouble(Trouble::Calm).await.unwrap();
    assert!(act(&proxy, &client).await.is_ok());

    proxy.trouble(Trouble::Slow(Duration::from_millis(200))).await.unwrap();
    let began = Instant::now();
    assert!(act(&proxy, &client).await.is_ok());
    assert!(began.elapsed() >= Duration::from_millis(200));
    let given_up = tokio::time::timeout(Duration::from_millis(50), act(&proxy, &client)).await;
    assert!(given_up.is_err());
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert_eq!(
        done.load(Ordering::SeqCst),
        2,
        "a disconnected client cancels a request that has not arrived"
    );
}
