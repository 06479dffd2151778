//! Sends requests to Vault and classifies the answers.

use super::VaultTarget;
use crate::{connection_settings, http_response, outbound};
use engine::ActionError;
use reqwest::{
    Method, StatusCode,
    header::{HeaderMap, HeaderValue},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{fmt, path::PathBuf, time::Duration};
use tokio::time::Instant;
use workflows::platform::codes;

/// The token for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TokenOf {
    Platform,
    Verifier,
    Outsider,
}

/// A client of Vault.
#[derive(Debug)]
pub(super) struct Client {
    http: reqwest::Client,
    endpoint: String,
    namespace: Option<String>,
    token: PathBuf,
    verifier: Option<PathBuf>,
    outsider: Option<PathBuf>,
}

/// A successful answer.
#[derive(Debug)]
pub(super) struct Answer {
    body: Value,
    changed: bool,
}

impl Answer {
    /// Returns the field `data` of the answer.
    pub(super) fn data<T: DeserializeOwned>(&self) -> Result<T, ActionError> {
        let data = self.body.get("data").cloned().unwrap_or_default();
        serde_json::from_value(data).map_err(|e| http_response::unreadable(e, self.changed))
    }
}

/// A failed request.
#[derive(Debug)]
pub(super) struct Refused {
    status: Option<StatusCode>,
    /// Vault's error messages. Absent if the answer did not come from Vault.
    said: Option<Vec<String>>,
    pub(super) error: ActionError,
}

impl Refused {
    /// Returns true if Vault reports that the path does not exist: 404 without a message.
    pub(super) fn absent(&self) -> bool {
        self.status == Some(StatusCode::NOT_FOUND) && self.said.as_ref().is_some_and(Vec::is_empty)
    }

    /// Returns true if Vault denies the request to this token.
    pub(super) fn denied(&self) -> bool {
        self.status == Some(StatusCode::FORBIDDEN) && self.said.is_some()
    }

    /// Returns true if Vault rejects the request as invalid with a message that contains one of these texts.
    pub(super) fn says(&self, words: &[&str]) -> bool {
        let said = self.said.as_deref().unwrap_or_default();
        self.status == Some(StatusCode::BAD_REQUEST)
            && said.iter().any(|said| words.iter().any(|words| said.contains(words)))
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.error.message)
    }
}

impl From<Refused> for ActionError {
    fn from(refused: Refused) -> Self {
        refused.error
    }
}

impl From<ActionError> for Refused {
    fn from(error: ActionError) -> Self {
        Self { status: None, said: None, error }
    }
}

#[derive(Deserialize)]
struct ErrorBody {
    errors: Vec<String>,
}

impl Client {
    pub(super) fn new(http: reqwest::Client, target: &VaultTarget) -> Self {
        Self {
            http,
            endpoint: target.endpoint.trim_end_matches('/').to_owned(),
            namespace: target.namespace.clone(),
            token: target.token_file.clone(),
            verifier: target.verifier_token_file.clone(),
            outsider: target.outsider_token_file.clone(),
        }
    }

    /// Sends a request and waits for the answer until `until`. `path` is relative to `/v1/`.
    pub(super) async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<Value>,
        who: TokenOf,
        until: Instant,
    ) -> Result<Answer, Refused> {
        let about = format!("{method} {path}");
        // Encryption and decryption use POST but change nothing.
        let changes = method != Method::GET && !path.contains("/encrypt/") && !path.contains("/decrypt/");
        let left = until.saturating_duration_since(Instant::now());
        if left == Duration::ZERO {
            return Err(
                ActionError::transient(codes::UNAVAILABLE, format!("{about}: no time is left")).into()
            );
        }
        let mut request = self.http.request(method, format!("{}/v1/{path}", self.endpoint));
        request = request.timeout(left).header("x-vault-request", "true");
        if let Some(token) = self.token(who)? {
            request = request.header("x-vault-token", token);
        }
        if let Some(namespace) = &self.namespace {
            request = request.header("x-vault-namespace", namespace);
        }
        if let Some(body) = body {
            request = request.json(&body);
        }
        let answer = request.send().await.map_err(|e| http_response::failure(&e, &about, changes))?;
        let (status, headers) = (answer.status(), answer.headers().clone());
        if !status.is_success() {
            let said = outbound::excerpt(answer).await;
            return Err(refused(&about, status, &headers, &said, changes));
        }
        let body = outbound::body(answer, outbound::PAGE).await;
        let body = body.map_err(|e| http_response::unread(&e, &about, changes))?;
        let body = if body.is_empty() { Ok(Value::Null) } else { serde_json::from_slice(&body) };
        let body = body.map_err(|e| http_response::unreadable(format!("{about}: {e}"), changes))?;
        Ok(Answer { body, changed: changes })
    }

    fn token(&self, who: TokenOf) -> Result<Option<HeaderValue>, ActionError> {
        let (field, path) = match who {
            TokenOf::Platform => ("token_file", Some(&self.token)),
            TokenOf::Verifier => {
                let why = "no verifier_token_file is set, and with the token that destroyed them it is not verified that keys are gone";
                let file =
                    self.verifier.as_ref().ok_or_else(|| ActionError::permanent(codes::REFUSED, why))?;
                ("verifier_token_file", Some(file))
            }
            TokenOf::Outsider => ("outsider_token_file", self.outsider.as_ref()),
        };
        let Some(path) = path else { return Ok(None) };
        let refused = |why: String| ActionError::permanent(codes::REFUSED, why);
        let token = connection_settings::secret(field, path).map_err(|e| refused(e.to_string()))?;
        let mut value =
            HeaderValue::from_str(&token).map_err(|_| refused(format!("{field}: is no token")))?;
        value.set_sensitive(true);
        Ok(Some(value))
    }
}

fn refused(about: &str, status: StatusCode, headers: &HeaderMap, body: &[u8], changes: bool) -> Refused {
    let said = serde_json::from_slice::<ErrorBody>(body).ok().map(|said| said.errors);
    let words = said.as_ref().map_or("not an answer of Vault".to_owned(), |said| said.join("; "));
    let words = format!("{about}: {words}");
    let error = match status.as_u16() {
        // A standby node that has not yet replicated a recent write.
        412 => ActionError::transient(codes::UNAVAILABLE, format!("{status}: {words}")),
        _ => http_response::refusal(status, headers, &words, changes)
            .unwrap_or_else(|| http_response::unreadable(format!("{status}: {words}"), changes)),
    };
    Refused { status: Some(status), said, error }
}

#[cfg(test)]
mod tests {
    use super::refused;
    use engine::Class;
    use reqwest::{StatusCode, header::HeaderMap};
    use workflows::platform::codes;

    fn refusal(status: u16, body: &str) -> super::Refused {
        refused(
            "GET transit/keys/t-acme",
            StatusCode::from_u16(status).unwrap(),
            &HeaderMap::new(),
            body.as_bytes(),
            true,
        )
    }

    #[test]
    fn a_key_is_absent_only_if_vault_answers_404_without_other_errors() {
        assert!(refusal(404, r#"{"errors":[]}"#).absent());
        let no_engine = refusal(404, r#"{"errors":["no handler for route \"transit/keys/t-acme\""]}"#);
        assert!(!no_engine.absent());
        assert_eq!(no_engine.error.code, codes::UNSUPPORTED);
        let no_vault = refusal(404, "<html>404</html>");
        assert!(!no_vault.absent());
        assert_eq!(no_vault.error.code, codes::UNSUPPORTED);
    }

    #[test]
    fn every_answer_of_vault_has_an_error_class() {
        for (status, class, code) in [
            (403, Class::Permanent, codes::DENIED),
            (412, Class::Transient, codes::UNAVAILABLE),
            (429, Class::Transient, codes::UNAVAILABLE),
            (503, Class::Transient, codes::UNAVAILABLE),
            (500, Class::Unknown, codes::NO_ANSWER),
            (400, Class::Permanent, codes::REFUSED),
        ] {
            let error = refusal(status, r#"{"errors":["said"]}"#).error;
            assert_eq!((error.class, error.code.as_str()), (class, code), "{status}");
        }
    }
}
