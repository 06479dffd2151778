//! `Idempotency-Key`: a repeated request gets the stored answer.
//!
//! One server of a store answers, under a [`KeyLock`], and finishes even if the client disconnects. The answer is stored after the effect, unless the client
//! should retry. Starts and schedule triggers commit the key together with their effect ([`RequestKey`]), so a crash between the two repeats neither.
//! `docs/http-api.md` lists the effects that a crash can repeat.

use crate::{
    auth::Caller,
    http::{
        extract::body_error,
        middleware::idempotency_lock::{KeyLock, KeyState, LockOutcome},
        problem::{Problem, code::ProblemCode, denial::DenialReason},
    },
    state::SharedState,
};
use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use engine::{ActionError, AuditContext, Entity, Schedule, Undecided, View, with_actor};
use program::encoding::hex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use std::time::Duration;
use store::{CompositeKey, Timestamp};
use tracing::Instrument as _;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
/// The prefix of engine keys for requests with an `Idempotency-Key`.
const OF_REQUESTS: &str = "key/";
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The maximum length of a key, in bytes.
const LONGEST_KEY: usize = 128;
/// The maximum size of a stored answer, in bytes.
pub(in crate::http) const LARGEST_ANSWER: usize = 64 << 10;
/// How long answers are stored.
pub(crate) const RESPONSE_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Expired answers are removed every hour, by a schedule.
const FORGET_AT: &str = "0 * * * *";

/// Returns the schedule that removes expired answers.
pub(crate) fn cleanup_schedule() -> Schedule {
    Schedule::built_in("forget-answers", FORGET_AT, "UTC")
}

/// The key and fingerprint of a request, for the commit of a start.
#[derive(Clone, Debug)]
pub(in crate::http) struct RequestKey(pub(in crate::http) Option<(String, String)>);

/// A key that starts something at most once.
#[derive(Clone, Debug)]
pub(in crate::http) struct StartKey {
    /// The key.
    pub(in crate::http) key: String,
    /// The fingerprint that identifies the request.
    pub(in crate::http) fingerprint: String,
    /// The key that an earlier version stored for the same request, if it differs.
    pub(in crate::http) earlier: Option<String>,
}

impl StartKey {
    /// Adds the key to a request, if there is one.
    pub(in crate::http) fn put(once: Option<Self>, asked: engine::Request) -> engine::Request {
        match once {
            Some(Self { key, fingerprint, earlier }) => {
                asked.with_idempotency_key(key, fingerprint).with_earlier_key(earlier)
            }
            None => asked,
        }
    }
}

impl RequestKey {
    /// Converts the key to that of a start.
    pub(in crate::http) fn start_key(self) -> Option<StartKey> {
        self.0.map(|(key, fingerprint)| StartKey { key, fingerprint, earlier: None })
    }

    /// Returns the stored answer for a request whose first answer contained a secret: an error, because secrets are not stored and no second one is created.
    /// The commit that creates the secret stores it ([`record_secret_shown`]).
    pub(in crate::http) fn shown(self, now: Timestamp) -> Option<StoredResponse> {
        let (key, fingerprint) = self.0?;
        let detail = "this request was already done; its answer contained a secret, which is not stored";
        let problem = Problem::new(ProblemCode::SecretShown, detail);
        Some(StoredResponse {
            id: key.strip_prefix(OF_REQUESTS).unwrap_or(&key).to_owned(),
            fingerprint,
            at: now,
            status: problem.status().as_u16(),
            location: None,
            tag: None,
            media: "application/problem+json".into(),
            body: problem.body().to_string(),
        })
    }
}

/// Records that the answer to a request contained a secret.
///
/// # Errors
/// `idempotency.secret_shown` if it was already recorded.
pub(in crate::http) fn record_secret_shown(
    view: &mut View,
    kept: Option<&StoredResponse>,
) -> Result<(), Undecided> {
    let Some(kept) = kept else { return Ok(()) };
    match view.get::<KeyState>(&kept.id)? {
        Some(KeyState::Kept(_)) => {
            let why = "this request was already done under the same key";
            Err(ActionError::permanent("idempotency.secret_shown", why).into())
        }
        // The answer replaces the claim of this request.
        Some(KeyState::Claimed(_)) | None => view.put(&KeyState::Kept(kept.clone())),
    }
}

/// Marks an answer that contains a secret and is not stored.
#[derive(Clone, Copy, Debug)]
pub(in crate::http) struct ContainsSecret;

/// A stored answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredResponse {
    /// The caller and the key.
    pub(crate) id: String,
    /// The fingerprint of the request.
    pub(in crate::http) fingerprint: String,
    /// The time of the answer.
    pub(in crate::http) at: Timestamp,
    pub(in crate::http) status: u16,
    pub(in crate::http) location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(in crate::http) tag: Option<String>,
    pub(in crate::http) media: String,
    pub(in crate::http) body: String,
}

impl Entity for StoredResponse {
    const COLLECTION: &'static str = "idempotency";
    const RETENTION: engine::Retention<Self> =
        engine::Retention::Scratch(|kept| Some(kept.at.after(RESPONSE_RETENTION)));

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// Answers a POST, from the store if its key was used before.
pub(in crate::http) async fn answer(
    app: &SharedState,
    caller: &Caller,
    behalf: Option<AuditContext>,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let limit = app.config.http.body_limit_bytes;
    let body = to_bytes(body, limit).await.map_err(|error| {
        body_error(&error, format!("the body could not be read, or exceeds {limit} bytes"))
    })?;
    let key = parts.headers.get(&KEY).map(checked).transpose()?;
    let Some(key) = key else {
        parts.extensions.insert(RequestKey(None));
        return Ok(next.run(Request::from_parts(parts, Body::from(body))).await);
    };
    // Names from earlier versions have no '/' either, so a key belongs to exactly one caller.
    let id = String::from(CompositeKey::of(&[&caller.name]).tail(&key));
    let earlier = CompositeKey::unescaped(&[&caller.name]).map(|name| name + "/" + &key);
    let (method, address) = (parts.method.as_str(), parts.uri.to_string());
    let bound = parts.headers.get(header::IF_MATCH).map(|value| String::from_utf8_lossy(value.as_bytes()));
    let said: Vec<&str> = [method, &address].into_iter().chain(bound.as_deref()).collect();
    let fingerprint = fingerprint(&said, &body);
    if let Some(earlier) = &earlier
        && let Some(kept) = KeyLock::answered(app, earlier, &fingerprint).await?
    {
        return Ok(kept.replay());
    }
    let claim = match KeyLock::on(app, &id, &fingerprint).await? {
        LockOutcome::Before(kept) => return Ok(kept.replay()),
        LockOutcome::Ours(claim) => claim,
    };
    parts.extensions.insert(RequestKey(Some((format!("{OF_REQUESTS}{id}"), fingerprint))));
    let work = next.run(Request::from_parts(parts, Body::from(body)));
    // Runs in its own task, so that a disconnected client finds the complete answer when it retries.
    let answered = async move {
        match behalf {
            Some(behalf) => claim.answer(with_actor(behalf, work)).await,
            None => claim.answer(work).await,
        }
    };
    let answered = tokio::spawn(answered.in_current_span());
    answered.await.map_err(|_| Problem::new(ProblemCode::Internal, "the handler of the request panicked"))
}

fn checked(value: &HeaderValue) -> Result<String, Problem> {
    let text = value.to_str().unwrap_or_default().trim().trim_matches('"');
    if text.is_empty() || text.len() > LONGEST_KEY {
        let detail = format!("Idempotency-Key: use 1 to {LONGEST_KEY} visible characters");
        return Err(Problem::new(ProblemCode::Malformed, detail));
    }
    Ok(text.to_owned())
}

/// Returns the SHA-256 of the parts that identify a request.
pub(in crate::http) fn fingerprint(parts: &[&str], body: &[u8]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(body);
    hex::encode(&hash.finalize())
}

impl StoredResponse {
    /// Returns true if this answer may be stored: it has no secret, and a retry would get the same answer.
    pub(in crate::http) fn may_be(answer: &Response) -> bool {
        let code = answer.extensions().get::<ProblemCode>();
        !answer.status().is_server_error()
            && answer.extensions().get::<ContainsSecret>().is_none()
            && code.is_none_or(|code| code.is_final())
    }

    /// Returns true if the answer can be repeated. Earlier versions also stored answers that the client should retry.
    pub(in crate::http) fn is_final(&self) -> bool {
        if self.status < 400 {
            return true;
        }
        let problem: Value = serde_json::from_str(&self.body).unwrap_or_default();
        let code = problem.get("code").and_then(Value::as_str).and_then(ProblemCode::named);
        code.is_none_or(ProblemCode::is_final)
    }

    fn replay(self) -> Response {
        let refused =
            StatusCode::from_u16(self.status).ok().and_then(|it| DenialReason::said(it, &self.body));
        let mut answer = Response::new(Body::from(Bytes::from(self.body)));
        *answer.status_mut() = StatusCode::from_u16(self.status).unwrap_or(StatusCode::OK);
        let headers = answer.headers_mut();
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
        let media = Some(self.media).filter(|media| !media.is_empty());
        for (name, text) in
            [(header::LOCATION, self.location), (header::ETAG, self.tag), (header::CONTENT_TYPE, media)]
        {
            if let Some(value) = text.and_then(|text| HeaderValue::from_str(&text).ok()) {
                headers.insert(name, value);
            }
        }
        if let Some(refused) = refused {
            answer.extensions_mut().insert(refused);
        }
        answer
    }
}

/// Marks an answer as a repeated one.
pub(in crate::http) fn mark_replayed(answer: &mut Response) {
    answer.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
}
