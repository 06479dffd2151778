use super::{Locks, UNTIL_LIFTED, Version, kept};
use crate::s3::{S3, S3Target};
use chrono::{DateTime, Utc};
use engine::{ActionError, Class};
use std::time::Duration;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::Instant,
};

fn locks(hold: Option<&str>, mode: Option<&str>, day: Option<&str>) -> Locks {
    let [hold, mode, day] = [hold, mode, day].map(|said| said.map(str::to_owned));
    Locks { hold, mode, day }
}

fn target(bypass: bool) -> S3Target {
    serde_json::from_value(serde_json::json!({
        "region": "eu-west", "endpoint": "http://127.0.0.1:1", "bypass_governance": bypass,
        "account": { "access_key_id": "A", "secret_key_file": "/nowhere" },
    }))
    .unwrap()
}

#[test]
fn a_lock_lasts_until_its_date_and_a_legal_hold_until_it_is_lifted() {
    let now: DateTime<Utc> = "2026-11-22T08:00:00Z".parse().unwrap();
    let (gone, far) = (Some("2026-11-22T07:59:59.000000000Z"), Some("2026-11-23T00:00:00.000000000Z"));
    let day = Ok(Some("2026-11-23T00:00:00Z".to_owned()));

    assert_eq!(kept(&target(true), &locks(None, Some("COMPLIANCE"), far), now), day);
    assert_eq!(kept(&target(false), &locks(None, Some("GOVERNANCE"), far), now), day);
    assert_eq!(kept(&target(true), &locks(None, Some("GOVERNANCE"), far), now), Ok(None));
    assert_eq!(kept(&target(false), &locks(None, Some("COMPLIANCE"), gone), now), Ok(None));
    assert_eq!(kept(&target(true), &locks(Some("ON"), None, None), now), Ok(Some(UNTIL_LIFTED.into())));
    assert_eq!(kept(&target(true), &locks(Some("OFF"), None, None), now), Ok(None));
    assert!(kept(&target(true), &locks(None, Some("COMPLIANCE"), Some("soon")), now).is_err());
}

/// A store whose answer to HEAD contains no lock, and that returns these answers for hold and retention.
async fn told_after(
    head: u16,
    hold: (u16, &'static str),
    retention: (u16, &'static str),
) -> Result<Option<String>, ActionError> {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = Vec::new();
            while !request.windows(4).any(|end| end == b"\r\n\r\n") {
                let mut part = [0; 4096];
                let read = stream.read(&mut part).await.unwrap();
                assert!(read > 0, "the request was cut off");
                request.extend_from_slice(part.get(..read).unwrap());
            }
            let line = String::from_utf8_lossy(&request).lines().next().unwrap_or_default().to_owned();
            let (status, body) = match &line {
                line if line.starts_with("HEAD") => (head, ""),
                line if line.contains("legal-hold") => hold,
                line if line.contains("retention") => retention,
                line => panic!("{line}"),
            };
            let length = body.len();
            let answer =
                format!("HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}");
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    let target = S3Target { endpoint, ..target(false) };
    let account = crate::s3::Account { secret_key_file: secret, ..target.account.clone() };
    let store = S3::connect(&S3Target { account, ..target }).unwrap();
    let version = Version { key: "a b".into(), id: "v1".into(), marker: false, bytes: 1 };
    let until = Instant::now() + Duration::from_secs(5);
    let lock = store.locked(&store.platform, "bucket", &version, true, until).await;
    server.abort();
    lock.map(|lock| lock.map(|lock| lock.until))
}

async fn told(
    hold: (u16, &'static str),
    retention: (u16, &'static str),
) -> Result<Option<String>, ActionError> {
    told_after(200, hold, retention).await
}

const NONE: (u16, &str) = (404, "<Error><Code>NoSuchObjectLockConfiguration</Code></Error>");
const DENIED: (u16, &str) = (403, "<Error><Code>AccessDenied</Code></Error>");

/// Stores omit locks from the answer to HEAD if the caller may not read them.
#[tokio::test]
async fn a_lock_missing_in_the_head_answer_is_requested_separately() {
    let on = (200, "<LegalHold><Status>ON</Status></LegalHold>");
    let day = (
        200,
        "<Retention><Mode>COMPLIANCE</Mode><RetainUntilDate>2131-05-01T00:00:00Z</RetainUntilDate></Retention>",
    );
    assert_eq!(told(on, NONE).await.unwrap().as_deref(), Some(UNTIL_LIFTED));
    assert_eq!(told(NONE, day).await.unwrap().as_deref(), Some("2131-05-01T00:00:00Z"));
    assert_eq!(told(NONE, NONE).await.unwrap(), None);
    let off = (200, "<LegalHold><Status>OFF</Status></LegalHold>");
    for nothing in ["<Retention></Retention>", "the object itself"] {
        assert_eq!(told(off, (200, nothing)).await.unwrap(), None, "{nothing}");
    }
    assert_eq!(told((200, "<LegalHold/>"), (416, "")).await.unwrap(), None, "an object without content");
}

#[tokio::test]
async fn an_unreadable_lock_never_counts_as_no_lock() {
    for (hold, retention) in [(DENIED, NONE), (NONE, DENIED)] {
        assert_eq!(told(hold, retention).await.unwrap_err().class, Class::Permanent);
    }
}

#[tokio::test]
async fn a_version_without_a_description_is_reported_with_a_remedy() {
    let error = told_after(400, NONE, NONE).await.unwrap_err();
    assert!(error.class == Class::Permanent && error.message.contains("SSE-C"), "{error}");
}
