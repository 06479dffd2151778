//! An identity provider for tests: discovery, keys, the code flow with PKCE, and the device flow. Every visitor is signed in as the
//! user that the test configures. The tests of `tests/e2e` do the same with a certified provider.

use axum::{
    Json, Router,
    extract::{Query, State},
    http::StatusCode,
    response::{IntoResponse as _, Redirect, Response},
    routing::{get, post},
};
use base64::{Engine as _, prelude::BASE64_URL_SAFE_NO_PAD as BASE64};
use ring::{
    digest::{SHA256, digest},
    rand::SystemRandom,
    signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _},
};
use serde_json::{Value, json};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
    time::{SystemTime, UNIX_EPOCH},
};

/// The registered client.
pub const CLIENT: &str = "tenure";
/// The secret of [`CLIENT`].
pub const SECRET: &str = "s3cret: with / odd & signs";

type Parameters = BTreeMap<String, String>;

/// The provider, which ends with the test.
#[derive(Clone)]
pub struct Identity {
    /// The provider's address, which is also its name.
    pub issuer: String,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    key: EcdsaKeyPair,
    /// The name of the key.
    kid: String,
    /// The claims of the next tokens.
    claims: Value,
    /// The request parameters of each issued code.
    codes: BTreeMap<String, Parameters>,
    /// How often a device has to poll.
    pending: u32,
    /// True if it does not answer.
    away: bool,
    /// How often its keys were read.
    read: u32,
}

fn drawn() -> EcdsaKeyPair {
    let (algorithm, random) = (&ECDSA_P256_SHA256_FIXED_SIGNING, SystemRandom::new());
    let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).expect("a key");
    EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random).expect("the key")
}

/// The time, in seconds since 1970.
#[must_use]
pub fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs()
}

impl Identity {
    /// Starts one on a free port.
    ///
    /// # Panics
    /// If no port is free.
    pub async fn start() -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let issuer = format!("http://{}", listener.local_addr().expect("an address"));
        let inner = Inner {
            key: drawn(),
            kid: "first".into(),
            claims: json!({ "sub": "alice", "groups": ["ops"] }),
            codes: BTreeMap::new(),
            pending: 1,
            away: false,
            read: 0,
        };
        let identity = Self { issuer, inner: Arc::new(Mutex::new(inner)) };
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys))
            .route("/authorize", get(authorize))
            .route("/device", post(device))
            .route("/token", post(token))
            .with_state(identity.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        identity
    }

    fn with<T>(&self, what: impl FnOnce(&mut Inner) -> T) -> T {
        what(&mut self.inner.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Sets the claims of all later sign-ins.
    pub fn is(&self, claims: Value) {
        self.with(|inner| inner.claims = claims);
    }

    /// Makes it stop answering, or answer again.
    pub fn away(&self, away: bool) {
        self.with(|inner| inner.away = away);
    }

    /// Signs with another key from now on, and publishes only that one.
    pub fn rotate(&self, kid: &str) {
        self.with(|inner| (inner.key, inner.kid) = (drawn(), kid.to_owned()));
    }

    /// How often its keys were read.
    #[must_use]
    pub fn read(&self) -> u32 {
        self.with(|inner| inner.read)
    }

    /// Returns an ID token with these claims, over the usual ones.
    ///
    /// # Panics
    /// If it cannot be signed.
    #[must_use]
    pub fn token(&self, claims: &Value) -> String {
        self.with(|inner| {
            let header = json!({ "alg": "ES256", "typ": "JWT", "kid": inner.kid });
            self.signed(inner, &header, claims)
        })
    }

    /// Returns the same with another header.
    #[must_use]
    pub fn token_under(&self, header: &Value, claims: &Value) -> String {
        self.with(|inner| self.signed(inner, header, claims))
    }

    fn signed(&self, inner: &Inner, header: &Value, claims: &Value) -> String {
        let (mut all, now) = (json!({ "iss": self.issuer, "aud": CLIENT }), now());
        let fields = all.as_object_mut().expect("an object");
        fields.extend([("iat".to_owned(), json!(now)), ("exp".to_owned(), json!(now + 300))]);
        fields.extend(inner.claims.as_object().cloned().unwrap_or_default());
        fields.extend(claims.as_object().cloned().unwrap_or_default());
        fields.retain(|_, value| !value.is_null());
        let said = format!("{}.{}", BASE64.encode(header.to_string()), BASE64.encode(all.to_string()));
        let signature = inner.key.sign(&SystemRandom::new(), said.as_bytes()).expect("a signature");
        format!("{said}.{}", BASE64.encode(signature.as_ref()))
    }
}

async fn discovery(State(identity): State<Identity>) -> Response {
    if identity.with(|inner| inner.away) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let at = &identity.issuer;
    Json(json!({
        "issuer": at,
        "authorization_endpoint": format!("{at}/authorize"),
        "token_endpoint": format!("{at}/token"),
        "jwks_uri": format!("{at}/keys"),
        "device_authorization_endpoint": format!("{at}/device"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }))
    .into_response()
}

async fn keys(State(identity): State<Identity>) -> Json<Value> {
    identity.with(|inner| {
        inner.read += 1;
        let point = inner.key.public_key().as_ref();
        let (x, y) = (BASE64.encode(&point[1..33]), BASE64.encode(&point[33..65]));
        let key = json!({ "kty": "EC", "crv": "P-256", "use": "sig", "alg": "ES256", "kid": inner.kid, "x": x, "y": y });
        // A key of an unknown type; it must not hide the other one.
        Json(json!({ "keys": [{ "kty": "LATTICE", "kid": "of-tomorrow", "a": "b" }, key] }))
    })
}

async fn authorize(State(identity): State<Identity>, Query(asked): Query<Parameters>) -> Response {
    let wanted = ["client_id", "redirect_uri", "state", "nonce", "code_challenge", "scope"];
    let missing: Vec<_> = wanted.iter().filter(|name| !asked.contains_key(**name)).collect();
    if !missing.is_empty() || asked["client_id"] != CLIENT || asked["code_challenge_method"] != "S256" {
        return (StatusCode::BAD_REQUEST, format!("missing or wrong: {missing:?} {asked:?}")).into_response();
    }
    let code = identity.with(|inner| {
        let code = format!("code-{}", inner.codes.len());
        inner.codes.insert(code.clone(), asked.clone());
        code
    });
    let state = &asked["state"];
    Redirect::to(&format!("{}?code={code}&state={state}&iss={}", asked["redirect_uri"], identity.issuer))
        .into_response()
}

async fn device(State(identity): State<Identity>, body: String) -> Response {
    let asked = form(&body);
    if asked.get("client_id").map(String::as_str) != Some(CLIENT) {
        return refusal("invalid_client");
    }
    Json(json!({
        "device_code": "device", "user_code": "WDJB-MJHT", "expires_in": 60, "interval": 1,
        "verification_uri": format!("{}/activate", identity.issuer),
    }))
    .into_response()
}

fn refusal(error: &str) -> Response {
    (StatusCode::BAD_REQUEST, Json(json!({ "error": error }))).into_response()
}

async fn token(State(identity): State<Identity>, headers: axum::http::HeaderMap, body: String) -> Response {
    let sent = form(&body);
    let text = |name: &str| sent.get(name).map(String::as_str).unwrap_or_default();
    if text("grant_type").ends_with("device_code") {
        let waits = identity.with(|inner| {
            let waits = inner.pending;
            inner.pending = waits.saturating_sub(1);
            waits
        });
        if waits > 0 {
            return refusal("authorization_pending");
        }
        return Json(json!({ "id_token": identity.token(&json!({})), "token_type": "bearer" }))
            .into_response();
    }
    // As in RFC 6749, 2.3.1: both are form-encoded, then joined, then base64-encoded.
    let basic = headers.get("authorization").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let secret = decoded(basic.trim_start_matches("Basic "));
    if secret != format!("{CLIENT}:{}", encoded(SECRET)) {
        return refusal("invalid_client");
    }
    let Some(asked) = identity.with(|inner| inner.codes.remove(text("code"))) else {
        return refusal("invalid_grant");
    };
    let challenge = BASE64.encode(digest(&SHA256, text("code_verifier").as_bytes()));
    if challenge != asked["code_challenge"] || text("redirect_uri") != asked["redirect_uri"] {
        return refusal("invalid_grant");
    }
    let token = identity.token(&json!({ "nonce": asked["nonce"] }));
    Json(json!({ "id_token": token, "access_token": "opaque", "token_type": "bearer" })).into_response()
}

/// Parses a form.
fn form(body: &str) -> Parameters {
    let url = reqwest::Url::parse(&format!("http://form.invalid/?{body}")).expect("a form");
    url.query_pairs().into_owned().collect()
}

fn decoded(text: &str) -> String {
    let bytes = base64::prelude::BASE64_STANDARD.decode(text).unwrap_or_default();
    String::from_utf8(bytes).unwrap_or_default()
}

fn encoded(text: &str) -> String {
    let url = reqwest::Url::parse_with_params("http://form.invalid/", [(text, "")]).expect("an address");
    url.query().unwrap_or_default().trim_end_matches('=').to_owned()
}
