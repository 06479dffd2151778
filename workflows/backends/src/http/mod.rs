//! Hooks that call a service: signed requests over HTTP, answered immediately or by polling.
//!
//! Invariant: only the configured host is called. Redirects are not followed, and a polling address on another host is
//! rejected. Polling continues until the call's deadline; after that the action is pending, and the same request with
//! the same key asks for the outcome.

mod settings;
mod signed;

pub use settings::HttpTarget;
pub use signed::{Signer, signature};

use crate::{
    TargetError,
    hooks::{Answer, ErrorBody, HookBackend, HookTraits, Request, retry_delay},
    http_response, outbound,
};
use async_trait::async_trait;
use engine::{ActionError, Clock, SystemClock};
use reqwest::{Client, Method, RequestBuilder, StatusCode, Url};
use std::time::Duration;
use tokio::time::Instant;
use workflows::platform::codes;

/// A later attempt of the step has already acted.
const FENCED: StatusCode = StatusCode::PRECONDITION_FAILED;

/// A hook backend that calls a service.
#[derive(Debug)]
pub struct Service {
    client: Client,
    url: Url,
    target: HttpTarget,
    signer: Option<Signer>,
}

impl Service {
    /// Creates the backend from its settings. The service is not called.
    ///
    /// # Errors
    ///
    /// If a setting is invalid; the error names the field and the fix.
    pub fn connect(target: &HttpTarget) -> Result<Self, TargetError> {
        let url = target.check()?;
        let client = outbound::client().no_proxy();
        let client = match target.authorities()? {
            Some(authorities) => client.tls_certs_only(authorities),
            None => client,
        };
        let client = client.build().map_err(|e| TargetError::new("ca_file", e))?;
        let signer = target.signer()?;
        Ok(Self { client, url, target: target.clone(), signer })
    }

    /// Builds a signed request with the remaining time as its timeout.
    fn request(
        &self,
        method: Method,
        url: &Url,
        body: Vec<u8>,
        left: Duration,
    ) -> Result<RequestBuilder, ActionError> {
        let mut request = self.client.request(method.clone(), url.clone()).timeout(left);
        if let Some(signer) = &self.signer {
            let at = SystemClock.now().0 / 1_000;
            let signed = signer.sign(method.as_str(), url, at, &body);
            let signed = signed.map_err(|why| ActionError::transient(codes::UNAVAILABLE, why))?;
            request = signed.into_iter().fold(request, |request, (name, value)| request.header(name, value));
        }
        Ok(if body.is_empty() {
            request
        } else {
            request.header("content-type", "application/json").body(body)
        })
    }

    async fn send(&self, about: &Request, request: RequestBuilder) -> Result<Answer, ActionError> {
        let (what, changing) = (about.about(), about.changes());
        let sent = request
            .header("idempotency-key", &about.key)
            .header("tenure-step", &about.step)
            .header("tenure-epoch", about.epoch)
            .send();
        let answer = sent.await.map_err(|e| http_response::failure(&e.without_url(), &what, changing))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if !status.is_success() {
            let told = ErrorBody::read(&outbound::excerpt(answer).await);
            let said = format!("{what}: {}", told.words());
            let refused = if status == FENCED {
                ActionError::permanent(codes::FENCED, said)
            } else {
                let refused = http_response::refusal(status, &headers, &said, changing);
                refused.unwrap_or_else(|| http_response::unreadable(status, changing))
            };
            return Err(told.over(refused));
        }
        let bytes = outbound::body(answer, self.target.answer_limit_bytes).await;
        let bytes = bytes.map_err(|e| http_response::unread(&e, &what, changing))?;
        let read = serde_json::from_slice(&bytes);
        let read = read.map_err(|e| {
            http_response::unreadable(format!("{what}: the answer cannot be read: {e}"), changing)
        })?;
        Ok(match read {
            Answer::Pending { retry_after_seconds, poll } => {
                let told = http_response::retry_after(&headers).map(|span| span.as_secs());
                Answer::Pending { retry_after_seconds: retry_after_seconds.or(told), poll }
            }
            other => other,
        })
    }

    /// Resolves the polling address. Fails if it is on another host.
    fn poll_at(&self, poll: &str, request: &Request) -> Result<Url, ActionError> {
        let url = self.url.join(poll).ok().filter(|url| url.origin() == self.url.origin());
        url.ok_or_else(|| {
            let why = format!("{}: its polling address is on another host", request.about());
            http_response::unreadable(why, request.changes())
        })
    }
}

#[async_trait]
impl HookBackend for Service {
    fn backend(&self) -> &'static str {
        "http"
    }

    fn manners(&self) -> HookTraits {
        HookTraits {
            deadline: self.target.deadline,
            probes: self.target.probes,
            dry_runs: self.target.dry_runs,
        }
    }

    async fn ask(&self, request: &Request) -> Result<Answer, ActionError> {
        let until = Instant::now() + Duration::from_millis(request.deadline_ms);
        let left = || until.saturating_duration_since(Instant::now());
        let body = serde_json::to_vec(request).map_err(|e| ActionError::permanent(codes::REFUSED, e))?;
        let mut answer = self.send(request, self.request(Method::POST, &self.url, body, left())?).await?;
        while let Answer::Pending { retry_after_seconds, poll: Some(poll) } = &answer {
            let (pause, url) = (retry_delay(*retry_after_seconds), self.poll_at(poll, request)?);
            // The next call with the same key continues to poll.
            if !request.changes() || pause >= left() {
                break;
            }
            tokio::time::sleep(pause).await;
            answer = self.send(request, self.request(Method::GET, &url, Vec::new(), left())?).await?;
        }
        Ok(answer)
    }
}
