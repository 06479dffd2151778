//! The edge of the server: security headers, access to the platform's state, timeouts for slow clients, and limits on requests.

use crate::{
    routes::{filled, method},
    served::{Answer, Served, small},
    streams::Stream,
};
use api::rules;
use reqwest::{Client, Method, header::HeaderMap};
use std::{
    io::{Read as _, Write as _},
    net::{IpAddr, TcpStream, UdpSocket},
    time::{Duration, Instant},
};

/// Returns the headers that are missing or wrong in an answer.
pub(crate) fn undressed(path: &str, headers: &HeaderMap) -> Vec<String> {
    let said = |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let mut wanted = vec![
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-resource-policy", "same-origin"),
    ];
    if path.starts_with("/v1/") {
        wanted.push(("cache-control", "no-store"));
    }
    let wrong = wanted.into_iter().filter(|(name, value)| said(name) != *value);
    let mut wrong: Vec<_> = wrong.map(|(name, _)| format!("{name}: {:?}", said(name))).collect();
    for name in ["content-security-policy", "permissions-policy", "cache-control", "x-request-id"] {
        if said(name).is_empty() {
            wrong.push(format!("{name} is missing"));
        }
    }
    if path.starts_with("/v1/")
        && !(said("ratelimit-policy").contains(";q=") && said("ratelimit").contains(";r="))
    {
        wrong.push("what the caller may send is missing".to_owned());
    }
    wrong
}

#[tokio::test]
async fn every_answer_forbids_caching_embedding_and_content_sniffing() {
    let served = Served::start();
    for rule in rules() {
        let path = filled(rule.path);
        for token in [None, Some(&served.admin)] {
            let asked = served.ask(method(&rule), &path);
            let asked = token.into_iter().fold(asked, |asked, token| asked.bearer_auth(token));
            let answer = served.send(asked).await;
            assert_eq!(undressed(&path, &answer.headers), Vec::<String>::new(), "{rule:?}");
        }
    }
    for (method, path) in
        [(Method::GET, "/v1/nothing"), (Method::PATCH, "/v1/tenants"), (Method::GET, "/v1/%FF")]
    {
        let answer = served.send(served.ask(method, path)).await;
        assert_eq!(undressed(path, &answer.headers), Vec::<String>::new(), "{path}");
    }
    let page = served.send(served.ask(Method::GET, "/")).await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'self'"), "the console declares its own policy: {policy}");
}

/// Sends a request as a proxy on this machine does for a remote client.
async fn from_afar(served: &Served, path: &str, token: Option<&str>) -> Answer {
    let asked = served.ask(Method::GET, path).header("x-forwarded-for", "127.0.0.1");
    served.send(token.into_iter().fold(asked, |asked, token| asked.bearer_auth(token))).await
}

/// Returns an address of this machine on the network, if it has one. Nothing is sent.
fn own_address() -> Option<IpAddr> {
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    Some(socket.local_addr().ok()?.ip()).filter(|ip| !ip.is_loopback() && !ip.is_unspecified())
}

const TELLING: [&str; 2] = ["/metrics", "/readyz?verbose"];

#[tokio::test]
async fn platform_metrics_are_readable_locally_and_remotely_with_permission() {
    let served = Served::with_nodes().await;
    let reader = served.user("prometheus", &["auditor"], None).await;
    let tenants = served.user("owner", &["tenant_owner"], Some("acme")).await;
    for path in TELLING {
        assert_eq!(served.send(served.ask(Method::GET, path)).await.status, 200, "{path} here");
        let refused = from_afar(&served, path, None).await;
        assert_eq!((refused.status.as_u16(), refused.code()), (401, "auth.no_token"), "{path}");
        assert!(!refused.body.to_string().contains("eu-1"), "{}", refused.body);
        assert_eq!(from_afar(&served, path, Some("tn_a_b")).await.code(), "auth.bad_token");
        assert_eq!(from_afar(&served, path, Some(&tenants)).await.code(), "auth.foreign_tenant");
        let told = from_afar(&served, path, Some(&reader)).await;
        assert_eq!(told.status, 200, "{}", told.body);
        assert!(told.body.to_string().contains("eu-1"), "{}", told.body);
    }
    for path in ["/livez", "/readyz"] {
        let answer = from_afar(&served, path, None).await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (200, Some("ok\n")), "{path}");
    }
}

#[tokio::test]
async fn metrics_are_public_if_the_settings_say_so() {
    let served = Served::start_with(&[("TENURE_HTTP_OPEN_METRICS", "true")]);
    for path in TELLING {
        assert_eq!(from_afar(&served, path, None).await.status, 200, "{path}");
    }
}

/// The peer address counts; a header that names this machine does not.
#[tokio::test]
async fn a_remote_caller_is_never_treated_as_local() {
    let Some(own) = own_address() else { return };
    let served = Served::listening("0.0.0.0:0");
    let port = served.url.rsplit(':').next().unwrap().to_owned();
    let asked = |path: &str| Client::new().get(format!("http://{own}:{port}{path}"));
    for path in TELLING {
        for name in ["x-real-ip", "forwarded", "host"] {
            let answer = asked(path).header(name, "127.0.0.1").send().await.unwrap();
            assert_eq!(answer.status(), 401, "{path} with {name}");
        }
        assert_eq!(asked(path).bearer_auth(&served.admin).send().await.unwrap().status(), 200, "{path}");
    }
    assert_eq!(asked("/readyz").send().await.unwrap().text().await.unwrap(), "ok\n");
}

fn connect(served: &Served) -> TcpStream {
    let stream = TcpStream::connect(served.url.trim_start_matches("http://")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    stream
}

/// Reads until the server ends the connection, and returns the text and the duration.
fn to_the_end(mut stream: TcpStream) -> (String, Duration) {
    let (mut text, began) = (Vec::new(), Instant::now());
    // A reset connection has also ended; an open one has not.
    if let Err(error) = stream.read_to_end(&mut text) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "the connection stays open: {error}");
    }
    (String::from_utf8_lossy(&text).into_owned(), began.elapsed())
}

const QUICK: [(&str, &str); 2] = [("TENURE_HTTP_READ_TIMEOUT", "1s"), ("TENURE_HTTP_IDLE_TIMEOUT", "2s")];

#[tokio::test]
async fn incomplete_requests_time_out() {
    let served = Served::start_with(&QUICK);
    let began = Instant::now();

    let silent = connect(&served);
    let mut head = connect(&served);
    head.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nX-Half").unwrap();
    let mut body = connect(&served);
    let asked =
        "POST /v1/users HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000";
    write!(body, "{asked}\r\nAuthorization: Bearer {}\r\n\r\n{{\"name\":", served.admin).unwrap();

    for stream in [silent, head] {
        let (text, _) = to_the_end(stream);
        assert!(text.is_empty() || text.contains(" 408 "), "{text}");
    }
    assert!((0.9..10.0).contains(&began.elapsed().as_secs_f64()), "{:?}", began.elapsed());
    let (text, _) = to_the_end(body);
    assert!(text.starts_with("HTTP/1.1 408 ") && text.contains("request.timeout"), "{text}");
    let metrics = served.get("/metrics").await.body.as_str().unwrap().to_owned();
    for (phase, times) in [("head", 2), ("body", 1)] {
        assert!(
            metrics.contains(&format!("http_slow_clients_total{{phase=\"{phase}\"}} {times}")),
            "{metrics}"
        );
    }
    assert_eq!(served.get("/v1/users").await.body["items"].as_array().unwrap().len(), 1, "no user was added");
}

/// A slowly sent request head does not extend the timeout.
#[tokio::test]
async fn a_slow_request_head_is_closed_at_the_same_time_as_a_stalled_one() {
    let served = Served::start_with(&QUICK);
    let mut stream = connect(&served);
    let (began, mut sent) = (Instant::now(), 0);
    while stream.write_all(if sent == 0 { b"GET /livez HTTP/1.1\r\nX-Slow: " } else { b"a" }).is_ok() {
        sent += 1;
        assert!(began.elapsed() < Duration::from_secs(10), "the connection stays open");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(sent > 5, "{sent}");
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_stream_stays_open() {
    let served = Served::start_with(&QUICK);
    let mut stream = Stream::open(&served, &served.admin, "/v1/watch", "").await;
    assert_eq!(stream.must().await.name, "present");
    let mut kept = connect(&served);
    kept.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let (text, took) = to_the_end(kept);
    assert!(text.starts_with("HTTP/1.1 200 ") && text.ends_with("ok\n"), "{text}");
    assert!(took > Duration::from_millis(1_500), "{took:?}");

    served.onboard(&small("acme")).await;
    assert!(stream.must().await.id.len() > 1, "the stream still delivers events");
}

#[tokio::test]
async fn the_number_of_open_connections_is_limited_and_others_wait() {
    let served = Served::start_with(&[("TENURE_HTTP_CONNECTIONS", "2")]);
    let (first, second) = (connect(&served), connect(&served));
    let mut third = connect(&served);
    third.write_all(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").unwrap();
    third.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    assert!(third.read(&mut [0; 9]).is_err(), "it waits");
    drop(first);
    third.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    assert!(to_the_end(third).0.ends_with("ok\n"), "and is answered when a place is free");
    drop(second);
}

fn said(answer: &Answer, name: &str) -> String {
    answer.headers.get(name).map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn a_caller_above_the_rate_limit_has_to_wait_and_others_do_not() {
    let served = Served::start_with(&[("TENURE_HTTP_RATE", "1"), ("TENURE_HTTP_RATE_BURST", "5")]);
    let other = served.user("olga", &["auditor"], None).await;
    let mut answers = Vec::new();
    for _ in 0..8 {
        answers.push(served.get("/v1/me").await);
    }

    let first = &answers[0];
    assert_eq!(
        (first.status.as_u16(), said(first, "ratelimit-policy").as_str()),
        (200, "\"default\";q=5;w=5")
    );
    assert!(said(first, "ratelimit").starts_with("\"default\";r=3;t="), "{:?}", first.headers);
    let refused = answers.last().unwrap();
    assert_eq!((refused.status.as_u16(), refused.code()), (429, "rate.exceeded"), "{}", refused.body);
    assert_eq!(
        (said(refused, "retry-after").as_str(), said(refused, "ratelimit").as_str()),
        ("1", "\"default\";r=0;t=5")
    );
    assert_eq!(served.get_as(&other, "/v1/me").await.status, 200, "other callers have their own limit");
    for path in ["/livez", "/readyz", "/version", "/"] {
        for _ in 0..9 {
            assert_eq!(served.get(path).await.status, 200, "{path}");
        }
    }
    let metrics = served.get("/metrics").await.body.as_str().unwrap().to_owned();
    assert!(!metrics.contains("http_rate_refused_total{kind=\"user\"} 0"), "{metrics}");
    assert!(metrics.contains("http_rate_refused_total{kind=\"cluster\"} 0"), "{metrics}");
}

/// The rate limit still audits refused requests, and does not speed up guessing.
#[tokio::test]
async fn a_caller_that_guesses_too_fast_is_recorded_and_delayed() {
    let settings = [("TENURE_HTTP_RATE", "1"), ("TENURE_HTTP_RATE_BURST", "2"), ("TENURE_HTTP_GUESSES", "3")];
    let served = Served::start_with(&settings);
    let began = Instant::now();
    let mut statuses = Vec::new();
    for guess in 0..5 {
        statuses.push(served.get_as(&format!("tn_{guess:08}_wrong{guess}"), "/v1/me").await.status.as_u16());
    }
    assert_eq!(statuses[..3], [401, 401, 429], "{statuses:?}");
    assert!(began.elapsed() > Duration::from_millis(1_900), "{:?}", began.elapsed());
    let metrics = served.get("/metrics").await.body.as_str().unwrap().to_owned();
    assert!(metrics.contains("access_denied_total{code=\"auth.bad_token\"} 5"), "{metrics}");
    assert!(!metrics.contains("http_rate_refused_total{kind=\"address\"} 0"), "{metrics}");
    assert_eq!(served.get("/v1/me").await.status, 200, "a token holder is accepted from there");
}
