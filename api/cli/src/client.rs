//! The HTTP client that commands use.

pub(crate) mod contexts;
pub(crate) mod event_stream;
mod problem;

pub(crate) use program::encoding::percent::encode as escape;

use crate::{
    client::{contexts::Target, event_stream::Stream},
    common::{Common, Format},
    output::{self, harmless_value, sanitize},
};
use api::config::ANSWER_WITHIN;
use backends::outbound::{self, Unread};
use program::{
    exit::{Exit, Failure},
    files,
};
use reqwest::{Certificate, Method, header, redirect::Policy};
use serde_json::Value;
use std::{fmt::Write as _, path::PathBuf, sync::Once, time::Duration};

/// Items requested per page.
const PAGE: usize = 1_000;
/// The most items that are read of one list.
const MOST_ITEMS: usize = 1_000_000;
/// The longest export that is read, in bytes: 1 GiB.
const LONGEST: usize = 1 << 30;
/// The most redirects that are followed.
const SENT_ON: usize = 3;
/// The longest time that one event stream stays open; the caller then opens another.
const LISTENED: Duration = Duration::from_secs(86_400);

/// Warnings of a list are shown once, also with `--watch`.
static WARNED: Once = Once::new();

/// A server and the identity of the caller.
pub(crate) struct Client {
    base: String,
    token: Option<String>,
    token_file: PathBuf,
    http: reqwest::Client,
    /// True if the command is a dry run, so that nothing may be changed.
    dry_run: bool,
    /// True if answers are shown as text, so that every text in them is sanitised for a terminal.
    for_people: bool,
}

/// The body of a request.
pub(crate) struct Body {
    /// The media type.
    pub(crate) media: &'static str,
    /// The text.
    pub(crate) text: String,
    /// The idempotency key.
    pub(crate) key: Option<String>,
    /// Labels for the execution that the request starts.
    pub(crate) labels: Vec<String>,
}

impl Body {
    /// A JSON body.
    pub(crate) fn json(value: &Value) -> Self {
        Self { media: "application/json", text: value.to_string(), key: None, labels: Vec::new() }
    }
}

/// An answer of the server.
pub(crate) struct Answer {
    /// The body.
    pub(crate) text: String,
    /// True if the idempotency key was used before.
    pub(crate) replayed: bool,
    /// The key of a tenant's own cluster, which is shown once.
    pub(crate) cluster_key: Option<String>,
    /// The time of the withdrawal, for the file of a withdrawn certificate.
    pub(crate) withdrawn: Option<String>,
    /// True if the answer is shown as text.
    for_people: bool,
}

impl Answer {
    /// Returns the body as JSON. For text output, every text in it is one line that is safe for a terminal.
    pub(crate) fn value(&self) -> Result<Value, Failure> {
        let value = self.exact()?;
        Ok(if self.for_people { harmless_value(value) } else { value })
    }

    /// Returns the body as JSON, unchanged: for documents with several lines.
    pub(crate) fn exact(&self) -> Result<Value, Failure> {
        let unread = |e| Failure::other(format!("the server's answer cannot be read: {e}"));
        let mut value: Value = serde_json::from_str(&self.text).map_err(unread)?;
        value.sort_all_objects();
        Ok(value)
    }
}

impl Client {
    /// Returns the client for the server and identity that the command line names.
    pub(crate) fn of(common: &Common) -> Result<Self, Failure> {
        let Target { server, token, token_file, ca_file, .. } = contexts::target(common)?;
        let (base, token) = (server.value, token.map(|token| token.value));
        let trusted = files::authorities(ca_file.as_ref().map(|found| found.value.as_path()))?;
        let for_people = common.output == Format::Table;
        Ok(Self { dry_run: common.dry_run, for_people, ..Self::trusting(trusted, base, token, token_file)? })
    }

    /// Returns this client for documents with several lines: it leaves the values of answers unchanged.
    pub(crate) fn for_documents(self) -> Self {
        Self { for_people: false, ..self }
    }

    /// Returns the client for the server at `base` and the holder of `token`.
    pub(crate) fn to(base: String, token: Option<String>, token_file: PathBuf) -> Result<Self, Failure> {
        Self::trusting(Vec::new(), base, token, token_file)
    }

    fn trusting(
        trusted: Vec<Certificate>,
        base: String,
        token: Option<String>,
        token_file: PathBuf,
    ) -> Result<Self, Failure> {
        let http = outbound::client()
            .tls_certs_merge(trusted)
            .redirect(Policy::limited(SENT_ON))
            .timeout(ANSWER_WITHIN)
            .user_agent(concat!("tenure/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(Failure::other)?;
        Ok(Self { base, token, token_file, http, dry_run: false, for_people: true })
    }

    /// Returns a client for the same server with another token.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self {
            base: self.base.clone(),
            token: Some(token.to_owned()),
            token_file: self.token_file.clone(),
            http: self.http.clone(),
            dry_run: self.dry_run,
            for_people: self.for_people,
        }
    }

    /// Returns the token, or an empty text.
    pub(crate) fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    /// Sends a GET request.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, None).await
    }

    /// Previews a POST to `path` at the address `path:plan`. A non-empty `query` begins with `?`.
    pub(crate) async fn plan(&self, path: &str, query: &str, body: Body) -> Result<Answer, Failure> {
        self.send(Method::POST, &format!("{path}:plan{query}"), Some(body)).await
    }

    /// Previews a POST to `path` with the parameter `dry_run`.
    pub(crate) async fn foresee(&self, path: &str, body: Body) -> Result<Answer, Failure> {
        self.send(Method::POST, &format!("{path}?dry_run=true"), Some(body)).await
    }

    /// Previews a POST to `path` with the field `dry_run` in the body.
    pub(crate) async fn foresee_by_field(&self, path: &str, mut body: Value) -> Result<Answer, Failure> {
        if let Some(fields) = body.as_object_mut() {
            fields.insert("dry_run".into(), true.into());
        }
        self.send(Method::POST, path, Some(Body::json(&body))).await
    }

    /// Rejects a request that changes something during a dry run.
    fn may_change(&self, method: &Method, path: &str) -> Result<(), Failure> {
        if !self.dry_run {
            return Ok(());
        }
        let why = format!(
            "--dry-run: {method} {path} would change something, so it was not sent; please report this defect"
        );
        Err(Failure::other(why))
    }

    /// Sends a GET request whose answer may be as long as an export.
    pub(crate) async fn download(&self, path: &str) -> Result<Answer, Failure> {
        self.send_within(Method::GET, path, None, LONGEST).await
    }

    /// Sends a POST request.
    pub(crate) async fn post(&self, path: &str, body: Body) -> Result<Answer, Failure> {
        self.may_change(&Method::POST, path)?;
        self.send(Method::POST, path, Some(body)).await
    }

    /// Sends a PUT request.
    pub(crate) async fn put(&self, path: &str, body: Body) -> Result<Answer, Failure> {
        self.may_change(&Method::PUT, path)?;
        self.send(Method::PUT, path, Some(body)).await
    }

    /// Sends a DELETE request.
    pub(crate) async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.may_change(&Method::DELETE, path)?;
        self.send(Method::DELETE, path, None).await
    }

    /// Returns every item of a list, then the channels, schedules, limits and holds that `/v1/stuck` lists with it.
    pub(crate) async fn all(&self, path: &str, query: &str) -> Result<Vec<Value>, Failure> {
        let (mut items, mut channels, mut cursor) = (Vec::new(), Vec::new(), String::new());
        for _ in 0..MOST_ITEMS / PAGE {
            let page = self.get(&format!("{path}?limit={PAGE}{query}{cursor}")).await?;
            let mut page = page.value()?;
            if let Some(Value::Array(found)) = page.get_mut("items").map(Value::take) {
                items.extend(found);
            }
            let warnings = page.get("warnings").and_then(Value::as_array).filter(|all| !all.is_empty());
            if let Some(warnings) = warnings {
                WARNED.call_once(|| {
                    for warning in warnings {
                        output::note(&sanitize(warning.as_str().unwrap_or_default()));
                    }
                });
            }
            for beside in ["channels", "schedules", "limits", "holds", "closed_tenants"] {
                if let Some(Value::Array(found)) = page.get_mut(beside).map(Value::take) {
                    channels.extend(found);
                }
            }
            match page.get("next").and_then(Value::as_str) {
                Some(next) => cursor = format!("&cursor={}", escape(next)),
                None => {
                    items.append(&mut channels);
                    return Ok(items);
                }
            }
        }
        Err(Failure::other(format!("{path} has more than {MOST_ITEMS} items: narrow the list with a filter")))
    }

    /// Opens an event stream that continues after the event `after`. Returns `None` if no event will follow.
    pub(crate) async fn listen(&self, path: &str, after: Option<&str>) -> Result<Option<Stream>, Failure> {
        let mut request = self.http.get(format!("{}{path}", self.base)).timeout(LISTENED);
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(after) = after {
            request = request.header("last-event-id", after);
        }
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        match answer.status().as_u16() {
            204 => Ok(None),
            status if status < 400 => Ok(Some(Stream::of(answer))),
            status => Err(self.refused(status, &said(answer).await)),
        }
    }

    async fn send(&self, method: Method, path: &str, body: Option<Body>) -> Result<Answer, Failure> {
        self.send_within(method, path, body, outbound::LIST).await
    }

    /// Sends a request and reads at most `limit` bytes of the answer.
    async fn send_within(
        &self,
        method: Method,
        path: &str,
        body: Option<Body>,
        limit: usize,
    ) -> Result<Answer, Failure> {
        let mut request = self.http.request(method, format!("{}{path}", self.base));
        if let Some(token) = &self.token {
            request = request.bearer_auth(token);
        }
        if let Some(body) = body {
            request = request.header(header::CONTENT_TYPE, body.media).body(body.text);
            if let Some(key) = body.key {
                request = request.header("idempotency-key", key);
            }
            request =
                body.labels.iter().fold(request, |request, label| request.header("tenure-label", label));
        }
        let answer = request.send().await.map_err(|error| self.unreachable(&error))?;
        let status = answer.status().as_u16();
        let text_of = |name: &str| {
            answer.headers().get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
        };
        let (replayed, cluster_key) =
            (text_of("idempotency-replayed").is_some(), text_of("tenure-cluster-key"));
        let withdrawn = text_of("tenure-withdrawn");
        if status < 400 {
            let text = outbound::text(answer, limit).await.map_err(|error| match error {
                Unread::Broken(error) => self.unreachable(&error),
                Unread::TooLong(_) | Unread::Compressed(_) => Failure::other(error),
            })?;
            return Ok(Answer { text, replayed, cluster_key, withdrawn, for_people: self.for_people });
        }
        Err(self.refused(status, &said(answer).await))
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        let mut why = error.to_string();
        let mut source = std::error::Error::source(error);
        while let Some(inner) = source {
            let _ = write!(why, ": {inner}");
            source = inner.source();
        }
        // The request was not sent: the arguments do not fit into an address or a header.
        if error.is_builder() {
            let why = sanitize(&why);
            let message = format!(
                "the request cannot be sent: {why}\nremove characters that an address or a header cannot contain"
            );
            return Failure::new(Exit::Usage, message);
        }
        let message = format!(
            "the server at {} cannot be reached: {why}\nstart it with `tenure serve`, or name another server with --server",
            self.base
        );
        Failure::new(Exit::Unreachable, message)
    }

    fn refused(&self, status: u16, text: &str) -> Failure {
        let Ok(problem) = serde_json::from_str::<Value>(text) else {
            return Failure::new(
                Exit::of_status(status),
                format!("the server answered {status}: {}", sanitize(text)),
            );
        };
        let mut message = problem::text(&problem);
        if status == 401 && self.token.is_none() {
            let _ = write!(
                message,
                "\nno token was given, and {} has none: use --token, TENURE_TOKEN or --data",
                self.token_file.display()
            );
        }
        Failure { exit: Exit::of_status(status), message, problem: Some(problem) }
    }
}

/// Reads the body of a refusal.
async fn said(answer: reqwest::Response) -> String {
    String::from_utf8_lossy(&outbound::start(answer, outbound::MESSAGE).await).into_owned()
}

/// Runs the asynchronous work of a command.
pub(crate) fn block_on(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::other)?.block_on(work)
}

/// Returns filters such as `state=active` as query parameters.
pub(crate) fn filters(filters: &[String]) -> Result<String, Failure> {
    filters.iter().try_fold(String::new(), |mut query, filter| {
        let Some((field, value)) = filter.split_once('=') else {
            let message = format!("{filter:?} is not a filter; write FIELD=VALUE, such as state=active");
            return Err(Failure::new(Exit::Usage, message));
        };
        let _ = write!(query, "&{}={}", escape(field), escape(value));
        Ok(query)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing listens at the address, so a request that is sent ends as unreachable.
    #[test]
    fn a_dry_run_sends_nothing_that_changes_something() {
        let to = Client::to("http://127.0.0.1:9".into(), None, PathBuf::new()).unwrap();
        let client = Client { dry_run: true, ..to };
        let body = || Body::json(&Value::Null);
        let ends =
            |work: Result<Answer, Failure>| work.map(|_| Exit::Done).unwrap_or_else(|failure| failure.exit);
        let refused = block_on(async {
            assert_eq!(ends(client.post("/v1/x", body()).await), Exit::Failed);
            assert_eq!(ends(client.put("/v1/x", body()).await), Exit::Failed);
            assert_eq!(ends(client.delete("/v1/x").await), Exit::Failed);
            assert_eq!(ends(client.get("/v1/x").await), Exit::Unreachable);
            assert_eq!(ends(client.plan("/v1/x", "", body()).await), Exit::Unreachable);
            assert_eq!(ends(client.foresee("/v1/x", body()).await), Exit::Unreachable);
            assert_eq!(ends(client.foresee_by_field("/v1/x", Value::Null).await), Exit::Unreachable);
            Ok(Exit::Done)
        });
        assert!(refused.is_ok());
    }
}
