//! A server, asked over HTTP.

pub(crate) mod contexts;
pub(crate) mod event_stream;

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

/// Items asked for at once.
const PAGE: usize = 1_000;
/// How many items of a list are read, and in how many pages.
const MOST_ITEMS: usize = 1_000_000;
/// The longest export that is read in one piece, in bytes: 1 GiB.
const LONGEST: usize = 1 << 30;
/// How often an answer may send on to another address, as proxies do.
const SENT_ON: usize = 3;
/// How long one stream is listened to; then another goes on.
const LISTENED: Duration = Duration::from_secs(86_400);

/// Warnings of a list are shown once, also for a list that is shown again and again.
static WARNED: Once = Once::new();

/// A server and who asks.
pub(crate) struct Client {
    base: String,
    token: Option<String>,
    token_file: PathBuf,
    http: reqwest::Client,
    /// Whether the command is a dry run, so that nothing may be changed.
    dry_run: bool,
    /// Whether people read what is answered, so that texts in it have to be harmless for a terminal.
    for_people: bool,
}

/// A body to send.
pub(crate) struct Body {
    /// Its media type.
    pub(crate) media: &'static str,
    /// Its text.
    pub(crate) text: String,
    /// Asks for the same once.
    pub(crate) key: Option<String>,
    /// Written on the execution that it begins.
    pub(crate) labels: Vec<String>,
}

impl Body {
    /// A JSON body.
    pub(crate) fn json(value: &Value) -> Self {
        Self { media: "application/json", text: value.to_string(), key: None, labels: Vec::new() }
    }
}

/// An answer.
pub(crate) struct Answer {
    /// The body.
    pub(crate) text: String,
    /// Its key was seen before.
    pub(crate) replayed: bool,
    /// A secret that is shown once.
    pub(crate) cluster_key: Option<String>,
    /// Whether people read it.
    for_people: bool,
}

impl Answer {
    /// The body as JSON. For people, every text in it is one line that is harmless for a terminal.
    pub(crate) fn value(&self) -> Result<Value, Failure> {
        let value = self.exact()?;
        Ok(if self.for_people { harmless_value(value) } else { value })
    }

    /// The body as JSON, exactly: for documents of several lines.
    pub(crate) fn exact(&self) -> Result<Value, Failure> {
        let unread = |e| Failure::other(format!("the server's answer cannot be read: {e}"));
        let mut value: Value = serde_json::from_str(&self.text).map_err(unread)?;
        value.sort_all_objects();
        Ok(value)
    }
}

impl Client {
    /// The server and identity that the command line names.
    pub(crate) fn of(common: &Common) -> Result<Self, Failure> {
        let Target { server, token, token_file, ca_file, .. } = contexts::target(common)?;
        let (base, token) = (server.value, token.map(|token| token.value));
        let trusted = files::authorities(ca_file.as_ref().map(|found| found.value.as_path()))?;
        let for_people = common.output == Format::Table;
        Ok(Self { dry_run: common.dry_run, for_people, ..Self::trusting(trusted, base, token, token_file)? })
    }

    /// The server at `base`, as the holder of `token`.
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

    /// The same server, as the holder of another token.
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

    /// Who it acts as.
    pub(crate) fn token(&self) -> &str {
        self.token.as_deref().unwrap_or_default()
    }

    /// Reads.
    pub(crate) async fn get(&self, path: &str) -> Result<Answer, Failure> {
        self.send(Method::GET, path, None).await
    }

    /// Asks what a POST to `path` would decide and do: the address `path:plan` answers it. `query` begins with `?` if there is one.
    pub(crate) async fn plan(&self, path: &str, query: &str, body: Body) -> Result<Answer, Failure> {
        self.send(Method::POST, &format!("{path}:plan{query}"), Some(body)).await
    }

    /// Asks what a POST to `path` would lead to, by the parameter `dry_run`.
    pub(crate) async fn foresee(&self, path: &str, body: Body) -> Result<Answer, Failure> {
        self.send(Method::POST, &format!("{path}?dry_run=true"), Some(body)).await
    }

    /// Asks what a POST to `path` would lead to, by the field `dry_run` of the body.
    pub(crate) async fn foresee_by_field(&self, path: &str, mut body: Value) -> Result<Answer, Failure> {
        if let Some(fields) = body.as_object_mut() {
            fields.insert("dry_run".into(), true.into());
        }
        self.send(Method::POST, path, Some(Body::json(&body))).await
    }

    /// Refuses what would change something during a dry run.
    fn may_change(&self, method: &Method, path: &str) -> Result<(), Failure> {
        if !self.dry_run {
            return Ok(());
        }
        let why = format!(
            "--dry-run: {method} {path} would change something, and was not sent; this is a fault of this program"
        );
        Err(Failure::other(why))
    }

    /// Reads what may be longer than any other answer: an export.
    pub(crate) async fn download(&self, path: &str) -> Result<Answer, Failure> {
        self.send_within(Method::GET, path, None, LONGEST).await
    }

    /// Asks for a change.
    pub(crate) async fn post(&self, path: &str, body: Body) -> Result<Answer, Failure> {
        self.may_change(&Method::POST, path)?;
        self.send(Method::POST, path, Some(body)).await
    }

    /// Puts something in its place.
    pub(crate) async fn put(&self, path: &str, body: Body) -> Result<Answer, Failure> {
        self.may_change(&Method::PUT, path)?;
        self.send(Method::PUT, path, Some(body)).await
    }

    /// Removes.
    pub(crate) async fn delete(&self, path: &str) -> Result<Answer, Failure> {
        self.may_change(&Method::DELETE, path)?;
        self.send(Method::DELETE, path, None).await
    }

    /// Every item of a list; behind them the channels and schedules that stand beside what is stuck.
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
        Err(Failure::other(format!("{path} has more than {MOST_ITEMS} items: name fewer by a filter")))
    }

    /// Listens, behind the event of this id; `None` where nothing will follow.
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

    /// The answer, which has at most `limit` bytes.
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
        if status < 400 {
            let text = outbound::text(answer, limit).await.map_err(|error| match error {
                Unread::Broken(error) => self.unreachable(&error),
                Unread::TooLong(_) | Unread::Compressed(_) => Failure::other(error),
            })?;
            return Ok(Answer { text, replayed, cluster_key, for_people: self.for_people });
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
        // Nothing was sent: what was typed cannot be part of a request.
        if error.is_builder() {
            let why = sanitize(&why);
            let message = format!(
                "the request cannot be sent: {why}\nlook for characters that a header or an address cannot hold"
            );
            return Failure::new(Exit::Usage, message);
        }
        let message = format!(
            "the server at {} cannot be reached: {why}\nis it running? start it with `tenure serve`, or name another with --server",
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
        let part = |name: &str| sanitize(problem.get(name).and_then(Value::as_str).unwrap_or_default());
        let mut message = format!("{} ({})", part("detail"), part("code"));
        if !part("remedy").is_empty() {
            let _ = write!(message, "\nwhat to do: {}", part("remedy"));
        }
        if status == 401 && self.token.is_none() {
            let _ = write!(
                message,
                "\nno token was given, and there is none in {}: use --token, TENURE_TOKEN or --data",
                self.token_file.display()
            );
        }
        Failure { exit: Exit::of_status(status), message, problem: Some(problem) }
    }
}

/// What is said with a refusal.
async fn said(answer: reqwest::Response) -> String {
    String::from_utf8_lossy(&outbound::start(answer, outbound::MESSAGE).await).into_owned()
}

/// Runs what a client does.
pub(crate) fn block_on(work: impl Future<Output = Result<Exit, Failure>>) -> Result<Exit, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(Failure::other)?.block_on(work)
}

/// Filters such as `state=active` as parameters of an address.
pub(crate) fn filters(filters: &[String]) -> Result<String, Failure> {
    filters.iter().try_fold(String::new(), |mut query, filter| {
        let Some((field, value)) = filter.split_once('=') else {
            let message = format!("{filter:?} is no filter: write FIELD=VALUE, like state=active");
            return Err(Failure::new(Exit::Usage, message));
        };
        let _ = write!(query, "&{}={}", escape(field), escape(value));
        Ok(query)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nothing listens at the address: what is not refused cannot be reached.
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
