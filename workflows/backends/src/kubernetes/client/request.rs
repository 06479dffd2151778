//! Sends requests to the API server within the deadline of the call.

use crate::kubernetes::client::error::{Fault, Refusal, unanswered, unreadable};
use crate::outbound;
use engine::ActionError;
use http::{Method, Request, header};
use kube::client::Body;
use serde_json::Value;
use std::{error::Error, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};
use workflows::platform::{CallMetadata, codes};

/// A request.
#[derive(Clone, Debug)]
pub(in crate::kubernetes) struct ApiRequest {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<(&'static str, Value)>,
    /// True for a POST that changes nothing.
    question: bool,
    /// The accepted content type of the answer.
    accept: &'static str,
}

const JSON: &str = "application/json";
/// How long such an answer is doubted if the server does not report that it is ready.
const DOUBTED: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_millis(250);
/// Lists only the metadata of objects. Servers without support for it return whole objects.
const DESCRIBED: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

impl ApiRequest {
    pub(in crate::kubernetes) fn get(path: &str) -> Self {
        Self {
            method: Method::GET,
            path: path.to_owned(),
            query: Vec::new(),
            body: None,
            question: false,
            accept: JSON,
        }
    }

    /// Requests only the metadata of listed objects.
    pub(in crate::kubernetes) fn described(self) -> Self {
        Self { accept: DESCRIBED, ..self }
    }

    /// Adds a query parameter.
    pub(in crate::kubernetes) fn with(mut self, key: &'static str, value: &str) -> Self {
        self.query.push((key, value.to_owned()));
        self
    }

    pub(in crate::kubernetes) fn post(path: &str, body: Value) -> Self {
        Self { method: Method::POST, body: Some((JSON, body)), ..Self::get(path) }
    }

    /// A POST that stores nothing, such as an access review.
    pub(in crate::kubernetes) fn review(path: &str, body: Value) -> Self {
        Self { question: true, ..Self::post(path, body) }
    }

    /// A server-side apply.
    pub(in crate::kubernetes) fn apply(path: &str, body: Value) -> Self {
        Self { method: Method::PATCH, body: Some(("application/apply-patch+yaml", body)), ..Self::get(path) }
    }

    /// A JSON merge patch (RFC 7386).
    pub(in crate::kubernetes) fn merge(path: &str, body: Value) -> Self {
        Self { method: Method::PATCH, body: Some(("application/merge-patch+json", body)), ..Self::get(path) }
    }

    /// A JSON patch (RFC 6902).
    pub(in crate::kubernetes) fn patch(path: &str, body: Value) -> Self {
        Self { method: Method::PATCH, body: Some(("application/json-patch+json", body)), ..Self::get(path) }
    }

    pub(in crate::kubernetes) fn delete(path: &str, body: Value) -> Self {
        Self { method: Method::DELETE, body: Some((JSON, body)), ..Self::get(path) }
    }

    /// Sets the field manager.
    pub(in crate::kubernetes) fn by(mut self, manager: &str) -> Self {
        self.query.push(("fieldManager", manager.to_owned()));
        self
    }

    /// Overrides other managers of the fields.
    pub(in crate::kubernetes) fn forced(mut self) -> Self {
        self.query.push(("force", "true".to_owned()));
        self
    }

    /// Makes the request a dry run if the call is one.
    pub(in crate::kubernetes) fn under(self, stamp: &CallMetadata) -> Self {
        if stamp.dry_run { self.rehearsed() } else { self }
    }

    /// Makes the request a dry run: `dryRun=All`.
    pub(in crate::kubernetes) fn rehearsed(mut self) -> Self {
        self.query.push(("dryRun", "All".to_owned()));
        self.question = true;
        self
    }

    /// Returns the raw request for a stream, without a body.
    pub(in crate::kubernetes) fn watched(&self) -> Option<Request<Body>> {
        self.request().ok()
    }

    fn changing(&self) -> bool {
        self.method != Method::GET && !self.question
    }

    fn about(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn request(&self) -> Result<Request<Body>, ActionError> {
        let query: Vec<String> =
            self.query.iter().map(|(key, value)| format!("{key}={}", escaped(value))).collect();
        let uri =
            if query.is_empty() { self.path.clone() } else { format!("{}?{}", self.path, query.join("&")) };
        let mut request = Request::builder().method(self.method.clone()).uri(uri);
        request = request.header(header::ACCEPT, self.accept);
        let body = match &self.body {
            Some((kind, body)) => {
                request = request.header(header::CONTENT_TYPE, *kind);
                Body::from(body.to_string().into_bytes())
            }
            None => Body::empty(),
        };
        request
            .body(body)
            .map_err(|e| ActionError::permanent(codes::REFUSED, format!("{}: {e}", self.about())))
    }
}

/// Returns the deadline of a call.
pub(in crate::kubernetes) fn deadline(stamp: &CallMetadata) -> Instant {
    Instant::now() + stamp.deadline
}

/// Sends a request and reads the complete answer. Dropping the future closes the connection.
///
/// A server that has just started denies requests until it has loaded its rules, and does not serve custom kinds until
/// it has loaded their definitions. After such an error, the request is repeated once the server is ready.
pub(in crate::kubernetes) async fn send(
    client: &kube::Client,
    ask: &ApiRequest,
    until: Instant,
) -> Result<Value, Fault> {
    match once(client, ask, until).await {
        Err(Fault::Refused(refusal)) if refusal.may_pass_with_the_start() => {
            ready(client, until).await;
            // There is no time for another attempt, so this answer counts.
            if Instant::now() + BETWEEN >= until {
                return Err(Fault::Refused(refusal));
            }
            once(client, ask, until).await
        }
        answer => answer,
    }
}

/// Waits until the server is ready, at most for [`DOUBTED`]. A server that denies the readiness query counts as not
/// ready.
async fn ready(client: &kube::Client, until: Instant) {
    let until = until.min(Instant::now() + DOUBTED);
    // It may have become ready after its answer and needs a moment more for custom kinds.
    sleep(BETWEEN).await;
    while is_ready(client, until).await != Some(true) && Instant::now() + BETWEEN < until {
        sleep(BETWEEN).await;
    }
}

/// Returns true if the server reports ready: its rules are loaded and all kinds are served. Returns `None` if the query
/// is denied.
pub(in crate::kubernetes) async fn is_ready(client: &kube::Client, until: Instant) -> Option<bool> {
    let asked = Request::get("/readyz").body(Body::empty()).ok()?;
    let status = timeout_at(until, client.send(asked)).await.ok()?.ok()?.status();
    (status.is_success() || status.is_server_error()).then(|| status.is_success())
}

async fn once(client: &kube::Client, ask: &ApiRequest, until: Instant) -> Result<Value, Fault> {
    let (about, changing) = (ask.about(), ask.changing());
    let request = ask.request()?;
    let exchange = async {
        let (head, body) = client.send(request).await?.into_parts();
        let body = outbound::collected(body, outbound::LIST).await?;
        Ok::<_, Box<dyn Error + Send + Sync>>((head, body))
    };
    let (head, body) = match timeout_at(until, exchange).await {
        Err(_) => return Err(unanswered(&about, "no answer in time", changing, true).into()),
        Ok(Err(error)) => return Err(failure(&about, &*error, changing).into()),
        Ok(Ok(answer)) => answer,
    };
    if !head.status.is_success() {
        let rest = head.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok());
        return Err(Fault::Refused(Box::new(Refusal::read(
            head.status.as_u16(),
            rest,
            &body,
            about,
            changing,
        ))));
    }
    let object: Value = serde_json::from_slice(&body).map_err(|e| unreadable(&about, e, changing))?;
    if object.get("kind").and_then(Value::as_str).is_none() {
        return Err(unreadable(&about, "its kind is missing", changing).into());
    }
    Ok(object)
}

fn failure(about: &str, error: &(dyn Error + Send + Sync + 'static), changing: bool) -> ActionError {
    if let Some(long) = error.downcast_ref::<outbound::Unread>() {
        return unreadable(about, long, changing);
    }
    if let Some(kube::Error::Auth(why)) = error.downcast_ref::<kube::Error>() {
        return ActionError::permanent(codes::DENIED, format!("{about}: no credentials: {why}"));
    }
    let (mut said, mut sent) = (String::new(), true);
    let mut cause: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(one) = cause {
        if let Some(client) = one.downcast_ref::<hyper_util::client::legacy::Error>() {
            sent = !client.is_connect();
        }
        let text = one.to_string();
        if !said.contains(&text) {
            said = if said.is_empty() { text } else { format!("{said}: {text}") };
        }
        cause = one.source();
    }
    unanswered(about, &said, changing, sent)
}

/// Escapes a part of a path or a query.
pub(in crate::kubernetes) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            escaped.push(char::from(byte));
        } else {
            escaped.push_str(&format!("%{byte:02X}"));
        }
    }
    escaped
}
