//! A service behind a hook: the requests it gets, polling, and its limits.

use super::{hook, said, serve, stamp, table};
use axum::{
    Json, Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, Method, Uri},
    response::{IntoResponse, Response},
    routing::{any, get, post},
};
use backends::http::{HttpTarget, Service, signature};
use engine::{Class, Probe};
use serde_json::{Value, json};
use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};
use workflows::platform::{CallMetadata, Hooks, codes};

fn hooks(target: &HttpTarget) -> backends::hooks::HookRegistry {
    table("it", Service::connect(target).unwrap())
}

/// Starts a service that gives these answers, repeats the last one, and records its requests.
async fn answering(
    answers: Vec<fn() -> Response>,
) -> (String, Arc<Mutex<Vec<(Method, Uri, HeaderMap, Bytes)>>>) {
    let sent: Arc<Mutex<Vec<_>>> = Arc::default();
    let kept = sent.clone();
    let answer = move |method: Method, uri: Uri, headers: HeaderMap, body: Bytes| async move {
        let mut sent = kept.lock().unwrap();
        sent.push((method, uri, headers, body));
        answers[(sent.len() - 1).min(answers.len() - 1)]()
    };
    (serve(Router::new().fallback(any(answer))).await, sent)
}

fn done() -> Response {
    said(200, json!({ "status": "done", "output": { "id": 7 } }))
}

#[tokio::test]
async fn a_request_is_signed_and_contains_key_step_and_epoch() {
    let folder = tempfile::tempdir().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, "a secret of 16 bytes or more\n").unwrap();
    let (url, sent) = answering(vec![
        || said(202, json!({ "status": "pending", "poll": "/jobs/7?of=it", "retry_after_seconds": 0 })),
        done,
    ])
    .await;
    let mut target = HttpTarget::new(&format!("{url}/hooks/it?zone=a"));
    (target.key_id, target.secret_file) = (Some("tenure-1".into()), Some(secret.clone()));
    let hooks = hooks(&target);

    let output = hooks
        .run(&hook("it", json!({})), &CallMetadata { epoch: store::Epoch(7), ..stamp("e/S/1/0", false) })
        .await;

    assert_eq!(output.unwrap(), json!({ "id": 7 }));
    let sent_now = sent.lock().unwrap().clone();
    let [(method, uri, headers, body), (polled, at, poll_headers, nothing)] = &sent_now[..] else {
        panic!("{sent_now:?}")
    };
    let text = |headers: &HeaderMap, name: &str| headers[name].to_str().unwrap().to_owned();
    assert_eq!((method, uri.to_string().as_str()), (&Method::POST, "/hooks/it?zone=a"));
    assert_eq!(text(headers, "idempotency-key"), "e/S/1/0");
    assert_eq!(text(headers, "tenure-step"), "e/S/1/0");
    assert_eq!(text(headers, "tenure-epoch"), "7");
    assert_eq!(text(headers, "tenure-key-id"), "tenure-1");
    let at_this = text(headers, "tenure-timestamp").parse().unwrap();
    let right = signature(b"a secret of 16 bytes or more", "POST", "/hooks/it?zone=a", at_this, body);
    assert_eq!(text(headers, "tenure-signature"), right);
    assert_eq!(serde_json::from_slice::<Value>(body).unwrap()["verb"], "run");
    assert_eq!((polled, at.to_string().as_str(), nothing.len()), (&Method::GET, "/jobs/7?of=it", 0));
    let at_this = text(poll_headers, "tenure-timestamp").parse().unwrap();
    let right = signature(b"a secret of 16 bytes or more", "GET", "/jobs/7?of=it", at_this, b"");
    assert_eq!(text(poll_headers, "tenure-signature"), right);

    // The secret is read at each use: without it no unsigned request is sent.
    std::fs::remove_file(secret).unwrap();
    let error = hooks.run(&hook("it", json!({})), &stamp("s", false)).await.unwrap_err();
    assert_eq!((error.class, error.code.as_str()), (Class::Transient, codes::UNAVAILABLE));
    assert_eq!(sent.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_pending_service_call_is_polled_with_the_same_key() {
    let pending = || {
        let body = json!({ "status": "pending", "poll": "/jobs/7" });
        let mut answer = said(202, body);
        answer.headers_mut().insert("retry-after", "40".parse().unwrap());
        answer
    };
    let (url, sent) = answering(vec![pending, done]).await;
    let hooks = hooks(&HttpTarget::new(&url));
    let began = Instant::now();

    let error = hooks.run(&hook("it", json!({})), &stamp("s", false)).await.unwrap_err();

    assert_eq!(error.class, Class::Pending { after: Duration::from_secs(40) });
    assert_eq!(error.code, codes::HOOK_PENDING);
    assert!(began.elapsed() < Duration::from_secs(5), "the call does not wait for the late answer");
    assert_eq!(hooks.run(&hook("it", json!({})), &stamp("s", false)).await.unwrap(), json!({ "id": 7 }));
    let keys: Vec<_> =
        sent.lock().unwrap().iter().map(|(_, _, headers, _)| headers["idempotency-key"].clone()).collect();
    assert_eq!(keys, ["s", "s"]);

    let (url, _) = answering(vec![pending]).await;
    let hooks = super::table("it", Service::connect(&HttpTarget::new(&url)).unwrap());
    assert_eq!(hooks.probe(&hook("it", json!({})), &stamp("s", false)).await.unwrap(), Probe::Running);
}

#[tokio::test]
async fn a_service_cannot_redirect_a_call_to_another_host() {
    let elsewhere: Arc<Mutex<u32>> = Arc::default();
    let count = |State(count): State<Arc<Mutex<u32>>>| async move {
        *count.lock().unwrap() += 1;
        done()
    };
    let other = serve(Router::new().fallback(any(count)).with_state(elsewhere.clone())).await;
    let (to, at) = (other.clone(), other.clone());
    let redirect = move || async move {
        (axum::http::StatusCode::TEMPORARY_REDIRECT, [("location", to.clone())]).into_response()
    };
    let poll = move || async move {
        Json(json!({ "status": "pending", "poll": format!("{at}/jobs/7"), "retry_after_seconds": 0 }))
            .into_response()
    };
    let url = serve(Router::new().route("/redirects", post(redirect)).route("/polls", post(poll))).await;

    for (path, code) in [("redirects", codes::REFUSED), ("polls", codes::UNREADABLE)] {
        let hooks = hooks(&HttpTarget::new(&format!("{url}/{path}")));
        let error = hooks.run(&hook("it", json!({})), &stamp("s", false)).await.unwrap_err();
        assert_eq!(error.code, code, "{error}");
    }
    assert_eq!(*elsewhere.lock().unwrap(), 0);
}

#[tokio::test]
async fn a_problem_has_the_text_of_the_service_and_the_class_of_its_status() {
    let problem = |status: u16| {
        said(status, json!({ "type": "about:blank", "title": "no room", "detail": "zone a is full" }))
    };
    for (answer, class, code) in [
        (
            (|| said(409, json!({ "code": "object.foreign" }))) as fn() -> Response,
            Class::Permanent,
            codes::OBJECT_FOREIGN,
        ),
        (|| said(412, json!({})), Class::Permanent, codes::FENCED),
        (|| said(403, json!({})), Class::Permanent, codes::DENIED),
        (|| said(500, json!({})), Class::Unknown, codes::NO_ANSWER),
        (|| said(200, json!({ "status": "made_up" })), Class::Unknown, codes::UNREADABLE),
    ] {
        let (url, _) = answering(vec![answer]).await;
        let error =
            hooks(&HttpTarget::new(&url)).run(&hook("it", json!({})), &stamp("s", false)).await.unwrap_err();
        assert_eq!((error.class, error.code.as_str()), (class, code));
    }
    let router = Router::new().route("/", post(move || async move { problem(422) }));
    let url = serve(router.route("/x", get(|| async {}))).await;
    let error =
        hooks(&HttpTarget::new(&url)).run(&hook("it", json!({})), &stamp("s", false)).await.unwrap_err();
    assert!(error.message.contains("no room: zone a is full"), "{error}");
    assert_eq!(error.class, Class::Permanent);
}

#[tokio::test]
async fn an_answer_above_the_limit_is_not_read_to_its_end() {
    let (url, _) = answering(vec![|| "x".repeat(200_000).into_response()]).await;
    let mut target = HttpTarget::new(&url);
    target.answer_limit_bytes = 1_000;

    let error = hooks(&target).run(&hook("it", json!({})), &stamp("s", false)).await.unwrap_err();

    assert_eq!((error.class, error.code.as_str()), (Class::Unknown, codes::UNREADABLE));
    assert!(error.message.contains("longer than 1000 bytes"), "{error}");
}
