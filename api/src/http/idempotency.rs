//! `Idempotency-Key`: the same request again gets the answer that it got before.
//!
//! The answer is kept after the effect. A start carries the key into its own commit as well ([`Once`]), so that a
//! crash between the two starts nothing twice; every other change refuses by itself to happen twice.

use super::{code::Code, deny::Refused, problem::Problem, read::unread};
use crate::{
    app::{App, Shared},
    auth::Caller,
    hex,
};
use axum::{
    body::{Body, Bytes, to_bytes},
    extract::Request,
    http::{HeaderName, HeaderValue, StatusCode, header},
    middleware::Next,
    response::Response,
};
use engine::Entity;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use std::{sync::PoisonError, time::Duration};
use store::{Commit, Key, Put, Timestamp};

const KEY: HeaderName = HeaderName::from_static("idempotency-key");
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
/// The longest key, in bytes.
const LONGEST_KEY: usize = 128;
/// The largest answer that is kept, in bytes.
const LARGEST_ANSWER: usize = 64 << 10;
/// How long answers are kept.
pub(crate) const KEPT_FOR: Duration = Duration::from_secs(7 * 24 * 3600);

/// The key of a request and its fingerprint, for the commit of a start.
#[derive(Clone, Debug)]
pub(super) struct Once(pub(super) Option<(String, String)>);

/// Marks an answer that holds a secret, and so is not kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Secret;

/// An answer as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// Whose key, and the key.
    pub(crate) id: String,
    /// Of which request.
    fingerprint: String,
    /// When it was answered.
    pub(crate) at: Timestamp,
    status: u16,
    location: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tag: Option<String>,
    media: String,
    body: String,
}

impl Entity for Kept {
    const COLLECTION: &'static str = "idempotency";

    fn id(&self) -> String {
        self.id.clone()
    }
}

/// Answers a POST, from memory if its key has been seen.
pub(super) async fn answer(
    app: &Shared,
    caller: &Caller,
    request: Request,
    next: Next,
) -> Result<Response, Problem> {
    let (mut parts, body) = request.into_parts();
    let limit = app.config.http.body_limit_bytes;
    let body = to_bytes(body, limit).await.map_err(|error| {
        unread(&error, format!("the body could not be read, or has more than {limit} bytes"))
    })?;
    let key = parts.headers.get(&KEY).map(checked).transpose()?;
    let Some(key) = key else {
        parts.extensions.insert(Once(None));
        return Ok(next.run(Request::from_parts(parts, Body::from(body))).await);
    };
    let id = format!("{}/{key}", caller.name);
    let fingerprint = fingerprint(&[parts.method.as_str(), &parts.uri.to_string()], &body);
    let _claimed = Claim::on(app, &id)?;
    if let Some(kept) = find(app, &id).await? {
        if kept.fingerprint != fingerprint {
            let detail = format!("the key {key:?} was used for a different request");
            return Err(Problem::new(Code::KeyReused, detail));
        }
        return Ok(kept.replay());
    }
    parts.extensions.insert(Once(Some((format!("key/{id}"), fingerprint.clone()))));
    let answer = next.run(Request::from_parts(parts, Body::from(body))).await;
    keep(app, id, fingerprint, answer).await
}

fn checked(value: &HeaderValue) -> Result<String, Problem> {
    let text = value.to_str().unwrap_or_default().trim().trim_matches('"');
    if text.is_empty() || text.len() > LONGEST_KEY {
        let detail = format!("Idempotency-Key: use 1 to {LONGEST_KEY} visible characters");
        return Err(Problem::new(Code::Malformed, detail));
    }
    Ok(text.to_owned())
}

/// SHA-256 of what makes two requests the same.
pub(super) fn fingerprint(parts: &[&str], body: &[u8]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    hash.update(body);
    hex::encode(&hash.finalize())
}

async fn find(app: &App, id: &str) -> Result<Option<Kept>, Problem> {
    let found = app.engine.store().document(&Key::new(Kept::COLLECTION, id)).await?;
    // What cannot be read is as good as forgotten.
    Ok(found.and_then(|found| serde_json::from_slice(&found.body).ok()))
}

async fn keep(app: &App, id: String, fingerprint: String, answer: Response) -> Result<Response, Problem> {
    if answer.status().is_server_error() || answer.extensions().get::<Secret>().is_some() {
        return Ok(answer);
    }
    let (parts, body) = answer.into_parts();
    let unreadable = |_| Problem::new(Code::Internal, "the answer could not be kept");
    let body = to_bytes(body, usize::MAX).await.map_err(unreadable)?;
    let text = |name: HeaderName| {
        parts.headers.get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
    };
    if body.len() <= LARGEST_ANSWER
        && let Ok(said) = String::from_utf8(body.to_vec())
    {
        let kept = Kept {
            fingerprint,
            at: app.engine.clock().now(),
            status: parts.status.as_u16(),
            location: text(header::LOCATION),
            tag: text(header::ETAG),
            media: text(header::CONTENT_TYPE).unwrap_or_default(),
            body: said,
            id,
        };
        let put = Put {
            key: Key::new(Kept::COLLECTION, &kept.id),
            body: Some(serde_json::to_vec(&kept).unwrap_or_default()),
        };
        let commit = Commit { documents: vec![put], ..Commit::default() };
        if let Err(error) = app.engine.store().commit(commit).await {
            tracing::warn!(%error, "an answer could not be kept for its Idempotency-Key");
        }
    }
    Ok(Response::from_parts(parts, Body::from(body)))
}

impl Kept {
    fn replay(self) -> Response {
        let refused = StatusCode::from_u16(self.status).ok().and_then(|it| Refused::said(it, &self.body));
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

/// Says that an answer repeats an earlier one.
pub(super) fn mark_replayed(answer: &mut Response) {
    answer.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
}

/// The right to answer the first request under a key; given back when dropped.
struct Claim {
    app: Shared,
    id: String,
}

impl Claim {
    fn on(app: &Shared, id: &str) -> Result<Self, Problem> {
        let mut keys = app.keys.lock().unwrap_or_else(PoisonError::into_inner);
        if !keys.insert(id.to_owned()) {
            return Err(Problem::new(Code::KeyInUse, "a request under this key is being answered"));
        }
        Ok(Self { app: app.clone(), id: id.to_owned() })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.app.keys.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.id);
    }
}
