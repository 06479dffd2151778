//! The identity provider: its metadata, its keys, and the exchange of a code for an ID token.

use crate::{
    auth::Person,
    config::Oidc,
    oidc::{
        Attempt, SignInError,
        keys::TAKEN,
        person::{Claims, person_from_claims},
    },
};
use backends::outbound;
use jsonwebtoken::{
    DecodingKey, Validation, decode, decode_header,
    errors::ErrorKind,
    jwk::{Jwk, PublicKeyUse},
};
use reqwest::{Certificate, Client, RequestBuilder, Url};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::Value;
use std::{path::Path, time::Duration};
use store::Timestamp;
use tokio::sync::Mutex;

const FORM: &str = "application/x-www-form-urlencoded";
/// The timeout of a request.
const PATIENCE: Duration = Duration::from_secs(10);
/// The maximum size of an answer, in bytes.
const LARGEST: usize = 1 << 20;
/// The maximum size of an ID token, in bytes.
const LONGEST_TOKEN: usize = 32 << 10;
/// The age at which cached metadata is read again.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// The minimum interval between reads for an unknown key.
const AGAIN: Duration = Duration::from_secs(5);

/// The configured identity provider.
pub struct Provider {
    settings: Oidc,
    secret: Option<String>,
    http: Client,
    known: Mutex<Option<CachedMetadata>>,
}

/// The metadata of the provider (OpenID Connect Discovery 1.0).
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Metadata {
    issuer: String,
    authorization_endpoint: String,
    pub(super) token_endpoint: String,
    jwks_uri: String,
    /// The endpoint of the device flow, if any (RFC 8628).
    pub(crate) device_authorization_endpoint: Option<String>,
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// The cached metadata with its time.
#[derive(Clone)]
struct CachedMetadata {
    metadata: Metadata,
    /// The keys of the provider, without unsupported types.
    keys: Vec<Jwk>,
    at: Timestamp,
}

impl Provider {
    /// Creates the provider from the settings; `None` without an issuer. Sends no request.
    ///
    /// # Errors
    /// The invalid key of the settings, and how to write it.
    pub fn of(settings: &Oidc) -> Result<Option<Self>, String> {
        if !settings.is_on() {
            return Ok(None);
        }
        let mut http = outbound::client().timeout(PATIENCE);
        if !settings.ca_file.is_empty() {
            let file = Path::new(&settings.ca_file);
            let pem = std::fs::read(file).map_err(|e| format!("oidc.ca_file: {}: {e}", file.display()))?;
            let authorities = Certificate::from_pem_bundle(&pem).unwrap_or_default();
            if authorities.is_empty() {
                return Err(format!("oidc.ca_file: {} has no certificate: write it as PEM", file.display()));
            }
            http = http.tls_certs_only(authorities);
        }
        let http = http.build().map_err(|e| format!("oidc.ca_file: {e}"))?;
        let secret = match settings.client_secret_file.as_str() {
            "" => None,
            file => {
                let text = std::fs::read_to_string(file)
                    .map_err(|e| format!("oidc.client_secret_file: {file}: {e}"))?;
                Some(text.trim().to_owned())
            }
        };
        if secret.as_deref() == Some("") {
            return Err(format!("oidc.client_secret_file: {} is empty", settings.client_secret_file));
        }
        Ok(Some(Self { settings: settings.clone(), secret, http, known: Mutex::new(None) }))
    }

    /// Returns the settings.
    pub(crate) fn settings(&self) -> &Oidc {
        &self.settings
    }

    /// Returns the metadata.
    ///
    /// # Errors
    /// [`SignInError::Unavailable`].
    pub(crate) async fn metadata(&self, now: Timestamp) -> Result<Metadata, SignInError> {
        self.known(now, FRESH).await.map(|known| known.metadata)
    }

    /// Reads the metadata and the keys now.
    pub(super) async fn seen(&self, now: Timestamp) -> Result<(Metadata, Vec<Jwk>), SignInError> {
        self.discover(now).await.map(|known| (known.metadata, known.keys))
    }

    /// Returns the URL for the sign-in in a browser.
    ///
    /// # Errors
    /// [`SignInError::Off`] without `oidc.url`, or [`SignInError::Unavailable`].
    pub(crate) async fn leave(&self, attempt: &Attempt, now: Timestamp) -> Result<Url, SignInError> {
        let back = self.callback()?;
        let known = self.known(now, FRESH).await?;
        let mut url = endpoint(&known.metadata.authorization_endpoint, "authorization_endpoint")?;
        let challenge = crate::auth::challenge_of(&attempt.verifier);
        url.query_pairs_mut()
            .append_pair("response_type", "code")
            .append_pair("client_id", &self.settings.client_id)
            .append_pair("redirect_uri", &back)
            .append_pair("scope", &self.settings.scopes)
            .append_pair("state", &attempt.state)
            .append_pair("nonce", &attempt.nonce)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256");
        Ok(url)
    }

    /// Returns the person who came back with `code`.
    ///
    /// # Errors
    /// The failed step.
    pub(crate) async fn come_back(
        &self,
        code: &str,
        attempt: &Attempt,
        now: Timestamp,
    ) -> Result<Person, SignInError> {
        let back = self.callback()?;
        let known = self.known(now, FRESH).await?;
        let form = [
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", back.as_str()),
            ("code_verifier", attempt.verifier.as_str()),
        ];
        let request = self.as_client(&known.metadata, &form)?;
        let answer: TokenResponse = self.read(request, "token_endpoint", is_ok).await?;
        self.person(&answer.id_token, Some(&attempt.nonce), now).await
    }

    /// Returns the person of an ID token. A given nonce must match.
    ///
    /// # Errors
    /// [`SignInError::Refused`] for an invalid token, and errors of the provider and the settings.
    pub(crate) async fn person(
        &self,
        token: &str,
        nonce: Option<&str>,
        now: Timestamp,
    ) -> Result<Person, SignInError> {
        let refused = |why: String| SignInError::Refused(format!("the ID token {why}"));
        if token.len() > LONGEST_TOKEN {
            return Err(refused(format!("is longer than {LONGEST_TOKEN} bytes")));
        }
        let header = decode_header(token).map_err(|e| refused(format!("cannot be parsed: {e}")))?;
        if !TAKEN.contains(&header.alg) {
            return Err(refused(format!(
                "has the signature algorithm {:?}, which is not accepted",
                header.alg
            )));
        }
        let mut known = self.known(now, FRESH).await?;
        if key(&known.keys, header.kid.as_deref()).is_none() {
            // The keys may have changed since they were cached.
            known = self.known(now, AGAIN).await?;
        }
        let Some(key) = key(&known.keys, header.kid.as_deref()) else {
            return Err(refused("is signed with a key that the provider does not publish".into()));
        };
        let key = DecodingKey::from_jwk(key).map_err(|e| refused(format!("has an invalid key: {e}")))?;
        let mut rules = Validation::new(header.alg);
        rules.set_required_spec_claims(&["exp", "iss", "aud", "sub"]);
        rules.set_issuer(&[&self.settings.issuer]);
        rules.set_audience(&self.settings.clients());
        rules.validate_nbf = true;
        let claims = decode::<Claims>(token, &key, &rules).map_err(|e| refused(self.words(e.kind())))?.claims;
        let alone = claims.aud.as_array().is_none_or(|all| all.len() == 1);
        let ours = |azp: &str| self.settings.clients().contains(&azp);
        if !claims.azp.as_deref().map_or(alone, ours) {
            return Err(refused("was issued for another client".into()));
        }
        if nonce.is_some() && claims.nonce.as_deref() != nonce {
            return Err(refused("belongs to another sign-in attempt".into()));
        }
        person_from_claims(&claims, &self.settings)
    }

    fn words(&self, kind: &ErrorKind) -> String {
        match kind {
            ErrorKind::InvalidSignature => "has an invalid signature".into(),
            ErrorKind::ExpiredSignature => "has expired".into(),
            ErrorKind::ImmatureSignature => "is not valid yet; compare the clocks".into(),
            ErrorKind::InvalidIssuer => format!("has another issuer than {}", self.settings.issuer),
            ErrorKind::InvalidAudience => {
                format!("was not issued for the client {}", self.settings.client_id)
            }
            other => format!("is not accepted: {other:?}"),
        }
    }

    fn callback(&self) -> Result<String, SignInError> {
        if self.settings.url.is_empty() {
            let why = "oidc.url is not set: sign in on the command line with `tenure login`";
            return Err(SignInError::Off(why.into()));
        }
        Ok(format!("{}/login/callback", self.settings.url.trim_end_matches('/')))
    }

    /// Returns the cached metadata, read again if older than `age`. After an error the cached values stay valid.
    async fn known(&self, now: Timestamp, age: Duration) -> Result<CachedMetadata, SignInError> {
        let mut known = self.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.at.is_recent(age, now)) {
            return Ok(known.clone());
        }
        match self.discover(now).await {
            Ok(found) => Ok(known.insert(found).clone()),
            Err(error) => match known.as_ref() {
                Some(known) => {
                    tracing::warn!(%error, "cannot read the identity provider; the cached metadata is used");
                    Ok(known.clone())
                }
                None => Err(error),
            },
        }
    }

    async fn discover(&self, now: Timestamp) -> Result<CachedMetadata, SignInError> {
        let issuer = self.settings.issuer.trim_end_matches('/');
        let at = format!("{issuer}/.well-known/openid-configuration");
        let metadata: Metadata = self.read(self.http.get(at), "discovery document", is_ok).await?;
        if metadata.issuer != self.settings.issuer {
            let why = format!(
                "the provider's issuer is {}, but oidc.issuer is {}",
                metadata.issuer, self.settings.issuer
            );
            return Err(SignInError::Unavailable(why));
        }
        let keys = self.http.get(endpoint(&metadata.jwks_uri, "jwks_uri")?);
        let keys: Value = self.read(keys, "jwks_uri", is_ok).await?;
        // Parsed one by one, so that a key of an unknown type does not hide the others.
        let keys = keys.get("keys").and_then(Value::as_array).cloned().unwrap_or_default();
        let keys = keys.into_iter().filter_map(|key| serde_json::from_value(key).ok()).collect();
        Ok(CachedMetadata { metadata, keys, at: now })
    }

    /// Returns a request to the token endpoint, with the authentication method of the provider.
    fn as_client(&self, metadata: &Metadata, form: &[(&str, &str)]) -> Result<RequestBuilder, SignInError> {
        let mut form = form.to_vec();
        let request = self.http.post(endpoint(&metadata.token_endpoint, "token_endpoint")?);
        let ways = metadata.token_endpoint_auth_methods_supported.as_deref();
        let is_basic = ways.is_none_or(|ways| ways.iter().any(|way| way == "client_secret_basic"));
        let request = match &self.secret {
            Some(secret) if is_basic => {
                request.basic_auth(encoded(&self.settings.client_id), Some(encoded(secret)))
            }
            Some(secret) => {
                form.extend([("client_id", self.settings.client_id.as_str()), ("client_secret", secret)]);
                request
            }
            None => {
                form.push(("client_id", &self.settings.client_id));
                request
            }
        };
        Ok(request.header("content-type", FORM).body(written(&form)))
    }

    /// Posts a form without a client secret, and returns the answer.
    pub(super) async fn post<T: DeserializeOwned>(
        &self,
        url: &str,
        what: &str,
        form: &[(&str, &str)],
    ) -> Result<T, SignInError> {
        self.post_read(url, what, form, is_ok).await
    }

    /// Posts a form; `read` decides which status codes have a readable answer.
    pub(super) async fn post_read<T: DeserializeOwned>(
        &self,
        url: &str,
        what: &str,
        form: &[(&str, &str)],
        is_answer: fn(u16) -> bool,
    ) -> Result<T, SignInError> {
        let request = self.http.post(endpoint(url, what)?).header("content-type", FORM).body(written(form));
        self.read(request, what, is_answer).await
    }

    async fn read<T: DeserializeOwned>(
        &self,
        request: RequestBuilder,
        what: &str,
        is_answer: fn(u16) -> bool,
    ) -> Result<T, SignInError> {
        let away = |why: String| SignInError::Unavailable(format!("the identity provider's {what} {why}"));
        let sent = request.header("accept", "application/json").send().await;
        let answer = sent.map_err(|e| away(format!("does not answer: {}", super::error_chain(&e))))?;
        let status = answer.status().as_u16();
        let body = outbound::body(answer, LARGEST).await;
        let body = body.map_err(|error| away(format!("sent an unreadable answer: {error}")))?;
        if is_answer(status) {
            return serde_json::from_slice(&body).map_err(|e| away(format!("cannot be parsed: {e}")));
        }
        let said: TokenError = serde_json::from_slice(&body).unwrap_or_default();
        let words = format!("{} {}", said.error, said.error_description);
        match (status, said.error.as_str()) {
            (400, "invalid_grant") => {
                Err(SignInError::Refused(format!("the provider refused: {}", words.trim())))
            }
            _ => Err(away(format!("has status {status}: {}", words.trim()))),
        }
    }
}

fn is_ok(status: u16) -> bool {
    status == 200
}

/// The answer of the token endpoint.
#[derive(Deserialize)]
struct TokenResponse {
    id_token: String,
}

/// The error answer of the token endpoint (RFC 6749, 5.2).
#[derive(Default, Deserialize)]
#[serde(default)]
struct TokenError {
    error: String,
    error_description: String,
}

fn endpoint(url: &str, which: &str) -> Result<Url, SignInError> {
    Url::parse(url)
        .map_err(|e| SignInError::Unavailable(format!("the provider's {which} {url:?} is not a URL: {e}")))
}

/// Returns the key with this id; without an id, the only key.
fn key<'a>(keys: &'a [Jwk], kid: Option<&str>) -> Option<&'a Jwk> {
    let mut signing = keys.iter().filter(|key| key.common.public_key_use != Some(PublicKeyUse::Encryption));
    match kid {
        Some(kid) => signing.find(|key| key.common.key_id.as_deref() == Some(kid)),
        None => signing.next().filter(|_| signing.next().is_none()),
    }
}

/// Encodes a form.
fn written(form: &[(&str, &str)]) -> String {
    let url = Url::parse_with_params("http://form.invalid/", form);
    url.ok().and_then(|url| url.query().map(ToOwned::to_owned)).unwrap_or_default()
}

/// Encodes a word of a form.
fn encoded(word: &str) -> String {
    written(&[(word, "")]).trim_end_matches('=').to_owned()
}
