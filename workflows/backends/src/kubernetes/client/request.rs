//! Requests to the API server, each bounded by the deadline of its call.

use crate::kubernetes::client::error::{Fault, Refusal, unanswered, unreadable};
use crate::outbound;
use engine::ActionError;
use http::{Method, Request, header};
use kube::client::Body;
use serde_json::Value;
use std::{error::Error, time::Duration};
use tokio::time::{Instant, sleep, timeout_at};
use workflows::platform::{CallMetadata, codes};

/// One request.
#[derive(Clone, Debug)]
pub(in crate::kubernetes) struct ApiRequest {
    method: Method,
    path: String,
    query: Vec<(&'static str, String)>,
    body: Option<(&'static str, Value)>,
    /// It asks a question by POST, and changes nothing.
    question: bool,
    /// In which form the answer is wanted.
    accept: &'static str,
}

const JSON: &str = "application/json";
/// For how long such an answer is doubted where the server does not say that it is ready.
const DOUBTED: Duration = Duration::from_secs(5);
const BETWEEN: Duration = Duration::from_millis(250);
/// Lists with nothing of their objects but the metadata; whole objects from servers that cannot leave anything out.
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

    /// Of the objects of a list nothing but their metadata.
    pub(in crate::kubernetes) fn described(self) -> Self {
        Self { accept: DESCRIBED, ..self }
    }

    /// With this in its query.
    pub(in crate::kubernetes) fn with(mut self, key: &'static str, value: &str) -> Self {
        self.query.push((key, value.to_owned()));
        self
    }

    pub(in crate::kubernetes) fn post(path: &str, body: Value) -> Self {
        Self { method: Method::POST, body: Some((JSON, body)), ..Self::get(path) }
    }

    /// A POST that is answered and leaves nothing, such as a review of access.
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

    /// In the name of this field manager.
    pub(in crate::kubernetes) fn by(mut self, manager: &str) -> Self {
        self.query.push(("fieldManager", manager.to_owned()));
        self
    }

    /// Also against other managers of the fields.
    pub(in crate::kubernetes) fn forced(mut self) -> Self {
        self.query.push(("force", "true".to_owned()));
        self
    }

    /// Answered as if it had been done, when the call is a dry run.
    pub(in crate::kubernetes) fn under(self, stamp: &CallMetadata) -> Self {
        if stamp.dry_run { self.rehearsed() } else { self }
    }

    /// Answered as if it had been done, and not done: `dryRun=All`.
    pub(in crate::kubernetes) fn rehearsed(mut self) -> Self {
        self.query.push(("dryRun", "All".to_owned()));
        self.question = true;
        self
    }

    /// As a request whose answer is a stream, and that has no body.
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

/// The moment by which a call must have its answer.
pub(in crate::kubernetes) fn deadline(stamp: &CallMetadata) -> Instant {
    Instant::now() + stamp.deadline
}

/// Sends one request and reads its answer whole. Dropping the future ends the request with its connection.
///
/// A server that was started a moment ago denies everything until it has read its rules, and does not serve the kinds that others have
/// defined until it has read those: what it says of that is asked once more, as soon as it says that it is ready.
pub(in crate::kubernetes) async fn send(
    client: &kube::Client,
    ask: &ApiRequest,
    until: Instant,
) -> Result<Value, Fault> {
    match once(client, ask, until).await {
        Err(Fault::Refused(refusal)) if refusal.may_pass_with_the_start() => {
            ready(client, until).await;
            // Too late for another answer: this one stands.
            if Instant::now() + BETWEEN >= until {
                return Err(Fault::Refused(refusal));
            }
            once(client, ask, until).await
        }
        answer => answer,
    }
}

/// Waits until the server is ready, as far as it lets us ask, and for so long as that may be hidden behind its missing rules.
async fn ready(client: &kube::Client, until: Instant) {
    let until = until.min(Instant::now() + DOUBTED);
    // It may have come to be ready since it answered, and takes a moment longer for the kinds.
    sleep(BETWEEN).await;
    while is_ready(client, until).await != Some(true) && Instant::now() + BETWEEN < until {
        sleep(BETWEEN).await;
    }
}

/// Whether the server says that it is ready: it knows its rules and serves all its kinds. `None` where it does not let us ask.
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
        return Err(unreadable(&about, "it has no kind", changing).into());
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

/// A part of a path or a query, with what has a meaning there escaped.
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
