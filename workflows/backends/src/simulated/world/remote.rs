//! A simulated platform in another process, over HTTP.

use crate::simulated::{Request, Response, World};
use crate::{http_response, outbound};
use async_trait::async_trait;
use engine::ActionError;
use std::time::Duration;
use workflows::platform::codes;

/// The longest time to connect. The other process is on this machine.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// A simulated platform in another process.
#[derive(Debug)]
pub struct RemoteWorld {
    client: reqwest::Client,
    call: String,
}

impl RemoteWorld {
    /// Creates a client for the platform at `url`, such as `http://127.0.0.1:7879`. Connects at the first call.
    ///
    /// # Errors
    ///
    /// `platform.refused` if no client can be created.
    pub fn new(url: &str) -> Result<Self, ActionError> {
        let client = outbound::client().connect_timeout(CONNECT_WITHIN).no_proxy().build();
        let client = client.map_err(|e| ActionError::permanent(codes::REFUSED, e))?;
        Ok(Self { client, call: format!("{}/call", url.trim_end_matches('/')) })
    }
}

#[async_trait]
impl World for RemoteWorld {
    async fn call(&self, request: Request) -> Result<Response, ActionError> {
        let deadline = Duration::from_millis(request.deadline_ms);
        let about = format!("{} {}", request.action, request.address());
        let changing = request.verb.changes() && !request.dry_run;
        let sent = self.client.post(&self.call).timeout(deadline).json(&request).send().await;
        let answer = sent.map_err(|e| http_response::failure(&e, &about, changing))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if !status.is_success() {
            let said = outbound::excerpt_text(answer).await;
            let refused = http_response::refusal(status, &headers, &said, changing);
            return Err(refused.unwrap_or_else(|| http_response::unreadable(status, changing)));
        }
        let bytes = outbound::body(answer, outbound::PAGE).await;
        let bytes = bytes.map_err(|e| http_response::unread(&e, &about, changing))?;
        let answer: Result<Result<Response, ActionError>, _> = serde_json::from_slice(&bytes);
        answer.map_err(|e| http_response::unreadable(format!("{about}: {e}"), changing))?
    }
}
