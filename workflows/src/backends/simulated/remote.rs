//! A world in another process, over HTTP.

use super::{Request, Response, World};
use crate::actuators::codes;
use async_trait::async_trait;
use engine::ActionError;
use std::time::Duration;

/// How long a connection may take. Default 2 s: the world is on this machine.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// A world in another process.
#[derive(Debug)]
pub struct RemoteWorld {
    client: reqwest::Client,
    call: String,
}

impl RemoteWorld {
    /// The world that listens at `url`, such as `http://127.0.0.1:7879`. Connects at the first call.
    ///
    /// # Errors
    /// `platform.refused` when no client can be made.
    pub fn new(url: &str) -> Result<Self, ActionError> {
        // Another part of the process may have installed one before; any will do.
        let _installed_before = rustls::crypto::ring::default_provider().install_default();
        let client = reqwest::Client::builder().connect_timeout(CONNECT_WITHIN).no_proxy().build();
        let client = client.map_err(|e| ActionError::permanent(codes::REFUSED, e))?;
        Ok(Self { client, call: format!("{}/call", url.trim_end_matches('/')) })
    }
}

#[async_trait]
impl World for RemoteWorld {
    async fn call(&self, request: Request) -> Result<Response, ActionError> {
        let deadline = Duration::from_millis(request.deadline_ms);
        let sent = self.client.post(&self.call).timeout(deadline).json(&request).send().await;
        let answer = sent.map_err(|e| trouble(&request, &e))?;
        if answer.status().is_client_error() {
            let said = format!("{}: {}", answer.status(), answer.text().await.unwrap_or_default());
            return Err(ActionError::permanent(codes::REFUSED, said));
        }
        let answer: Result<Response, ActionError> = answer.json().await.map_err(|e| trouble(&request, &e))?;
        answer
    }
}

/// Before it was sent, or where nothing can have happened, a failure may pass; after, nobody knows.
fn trouble(request: &Request, error: &reqwest::Error) -> ActionError {
    let harmless = error.is_connect() || error.is_builder() || !request.verb.changes();
    let said = format!("{} {}: {error}", request.action, request.address());
    if harmless {
        ActionError::transient(codes::UNAVAILABLE, said)
    } else {
        ActionError::unknown(codes::NO_ANSWER, said)
    }
}
