//! The lock of an `Idempotency-Key`: one server of a store answers the first request under a key.
//!
//! A claim is a document under the id of the answer. The server writes it if there is none, and renews it during the request. The answer replaces it, or it is
//! removed if the answer must not be stored. The claim of a killed server expires.
//!
//! Invariant: a request commits ledger changes only while its claim is valid, so two servers never both commit them.

use crate::{
    http::{
        middleware::idempotency::{LARGEST_ANSWER, RESPONSE_RETENTION, StoredResponse},
        problem::{Problem, code::ProblemCode},
    },
    state::{ServerState, SharedState},
};
use axum::{
    body::{Body, to_bytes},
    http::{HeaderName, header},
    response::{IntoResponse as _, Response},
};
use engine::{ActionError, Entity, Precondition, with_precondition};
use program::encoding::hex;
use serde::{Deserialize, Serialize};
use std::{future::Future, time::Duration};
use store::{Commit, Key, Put, Read, Timestamp};

/// A claim that was not renewed for this long is expired.
const LAPSES: Duration = Duration::from_secs(30);
/// The interval of renewals.
const RENEWED: Duration = Duration::from_secs(8);
/// The number of attempts after conflicting writes.
const TRIES: usize = 4;

/// The document under a key.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum KeyState {
    /// The stored answer.
    Kept(StoredResponse),
    /// A request in progress.
    Claimed(InProgress),
}

/// The claim of a request in progress.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InProgress {
    /// The caller and the key.
    id: String,
    /// The fingerprint of the request.
    fingerprint: String,
    /// The random id of this claim.
    claim: String,
    /// The expiry of the claim.
    until: Timestamp,
}

impl Entity for KeyState {
    const COLLECTION: &'static str = StoredResponse::COLLECTION;
    const RETENTION: engine::Retention<Self> =
        engine::Retention::Scratch(|under| Some(under.last_used().after(RESPONSE_RETENTION)));

    fn id(&self) -> String {
        match self {
            Self::Kept(kept) => kept.id.clone(),
            Self::Claimed(claimed) => claimed.id.clone(),
        }
    }
}

impl KeyState {
    /// Returns the time of the answer, or the expiry of the claim.
    fn last_used(&self) -> Timestamp {
        match self {
            Self::Kept(kept) => kept.at,
            Self::Claimed(claimed) => claimed.until,
        }
    }
}

/// The outcome of a claim.
pub(in crate::http) enum LockOutcome {
    /// This server must answer the request.
    Ours(KeyLock),
    /// The request was already answered.
    Before(StoredResponse),
}

/// The right to answer the first request under a key.
pub(in crate::http) struct KeyLock {
    app: SharedState,
    claimed: InProgress,
    /// True after the claim was replaced or removed.
    settled: bool,
}

fn key(id: &str) -> Key {
    Key::new(KeyState::COLLECTION, id)
}

/// Reads the document under a key, with its precondition. An unreadable document counts as absent.
async fn read_state(app: &ServerState, id: &str) -> Result<(Option<KeyState>, Read), store::Error> {
    let found = app.engine.store().document(&key(id)).await?;
    let version = found.as_ref().map(|found| found.version);
    let under = found.and_then(|found| serde_json::from_slice(&found.body).ok());
    Ok((under, Read { key: key(id), version }))
}

async fn write(
    app: &ServerState,
    id: &str,
    under: Option<&KeyState>,
    reads: Vec<Read>,
) -> Result<(), store::Error> {
    let body = under.map(|under| serde_json::to_vec(under).unwrap_or_default());
    let documents = vec![Put { key: key(id), body }];
    app.engine.store().commit(Commit { reads, documents, ..Commit::default() }).await.map(|_| ())
}

impl KeyLock {
    /// Returns the stored answer under `id`, if it can be repeated.
    pub(in crate::http) async fn answered(
        app: &SharedState,
        id: &str,
        fingerprint: &str,
    ) -> Result<Option<StoredResponse>, Problem> {
        match read_state(app, id).await?.0 {
            Some(KeyState::Kept(kept)) if kept.fingerprint != fingerprint => Err(reused(id)),
            Some(KeyState::Kept(kept)) if kept.is_final() => Ok(Some(kept)),
            Some(KeyState::Kept(_) | KeyState::Claimed(_)) | None => Ok(None),
        }
    }

    /// Claims the key `id` for the request with this fingerprint, unless it was answered or is in progress.
    pub(in crate::http) async fn on(
        app: &SharedState,
        id: &str,
        fingerprint: &str,
    ) -> Result<LockOutcome, Problem> {
        for _ in 0..TRIES {
            let (under, read) = read_state(app, id).await?;
            let now = app.engine.clock().now();
            let other = |theirs: &str| theirs != fingerprint;
            match under {
                Some(KeyState::Kept(StoredResponse { fingerprint: theirs, .. })) if other(&theirs) => {
                    return Err(reused(id));
                }
                Some(KeyState::Claimed(InProgress { fingerprint: theirs, .. })) if other(&theirs) => {
                    return Err(reused(id));
                }
                Some(KeyState::Kept(kept)) if kept.is_final() => return Ok(LockOutcome::Before(kept)),
                Some(KeyState::Claimed(claimed)) if claimed.until > now => {
                    return Err(Problem::new(
                        ProblemCode::KeyInUse,
                        "a request under this key is in progress",
                    ));
                }
                Some(KeyState::Kept(_) | KeyState::Claimed(_)) | None => {}
            }
            let claim = hex::encode(&app.engine.clock().entropy());
            let (id, fingerprint) = (id.to_owned(), fingerprint.to_owned());
            let claimed = InProgress { id, fingerprint, claim, until: now.after(LAPSES) };
            let under = KeyState::Claimed(claimed.clone());
            match write(app, &claimed.id, Some(&under), vec![read]).await {
                Ok(()) => return Ok(LockOutcome::Ours(Self { app: app.clone(), claimed, settled: false })),
                Err(store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(Problem::new(ProblemCode::KeyInUse, "a request under this key is in progress"))
    }

    /// Runs `work`, and stores its answer if it can be repeated.
    pub(in crate::http) async fn answer(self, work: impl Future<Output = Response>) -> Response {
        let claimed = self.claimed.clone();
        let stands = Precondition::new(move |view| match view.get::<KeyState>(&claimed.id)? {
            Some(KeyState::Claimed(stands)) if stands.claim == claimed.claim => Ok(()),
            _ => Err(lost().into()),
        });
        let mut work = Box::pin(with_precondition(stands, work));
        let answer = loop {
            tokio::select! {
                answer = &mut work => break answer,
                () = tokio::time::sleep(RENEWED) => self.renew().await,
            }
        };
        self.settle(answer).await.unwrap_or_else(|problem| problem.into_response())
    }

    /// Returns the precondition of the document if it is still this claim.
    async fn stands(&self) -> Result<Option<Read>, store::Error> {
        let (under, read) = read_state(&self.app, &self.claimed.id).await?;
        let own = matches!(under, Some(KeyState::Claimed(stands)) if stands.claim == self.claimed.claim);
        Ok(own.then_some(read))
    }

    async fn renew(&self) {
        let until = self.app.engine.clock().now().after(LAPSES);
        let renewed = KeyState::Claimed(InProgress { until, ..self.claimed.clone() });
        self.replace(Some(&renewed)).await;
    }

    /// Replaces or removes the document if the claim is still valid.
    async fn replace(&self, by: Option<&KeyState>) {
        let replaced = async {
            match self.stands().await? {
                Some(read) => write(&self.app, &self.claimed.id, by, vec![read]).await,
                None => Ok(()),
            }
        };
        if let Err(error) = replaced.await {
            tracing::warn!(%error, "cannot write the state of an Idempotency-Key");
        }
    }

    async fn settle(mut self, answer: Response) -> Result<Response, Problem> {
        self.settled = true;
        if !StoredResponse::may_be(&answer) {
            self.replace(None).await;
            return Ok(answer);
        }
        let (parts, body) = answer.into_parts();
        let unreadable = |_| Problem::new(ProblemCode::Internal, "cannot store the answer");
        let body = to_bytes(body, usize::MAX).await.map_err(unreadable)?;
        let text = |name: HeaderName| {
            parts.headers.get(name).and_then(|value| value.to_str().ok()).map(ToOwned::to_owned)
        };
        let said = String::from_utf8(body.to_vec()).ok().filter(|said| said.len() <= LARGEST_ANSWER);
        let kept = said.map(|said| {
            KeyState::Kept(StoredResponse {
                id: self.claimed.id.clone(),
                fingerprint: self.claimed.fingerprint.clone(),
                at: self.app.engine.clock().now(),
                status: parts.status.as_u16(),
                location: text(header::LOCATION),
                tag: text(header::ETAG),
                media: text(header::CONTENT_TYPE).unwrap_or_default(),
                body: said,
            })
        });
        self.replace(kept.as_ref()).await;
        Ok(Response::from_parts(parts, Body::from(body)))
    }
}

/// Removes the claim after a panic or a cancelled request.
impl Drop for KeyLock {
    fn drop(&mut self) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        if self.settled {
            return;
        }
        let left = Self { app: self.app.clone(), claimed: self.claimed.clone(), settled: true };
        runtime.spawn(async move { left.replace(None).await });
    }
}

fn reused(id: &str) -> Problem {
    let key = id.split_once('/').map_or(id, |(_, key)| key);
    Problem::new(ProblemCode::KeyReused, format!("the key {key:?} was used for a different request"))
}

/// The error of a request whose claim was taken by another server.
fn lost() -> ActionError {
    let why = "another server now answers this request, because the claim of this server expired";
    ActionError::permanent("idempotency.lost", why)
}
