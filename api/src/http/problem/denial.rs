//! Records refusals of requests for the audit.
//!
//! Every request passes this layer. An answer with status 401 or 403 is a refusal, and so is a 404 if a resource was hidden from the caller.

use crate::{
    auth::Caller,
    http::{address::outer_path, credentials::bearer, problem::code::ProblemCode},
    state::{SharedState, access_denials::DenialContext, connections::PeerAddress},
};
use axum::{
    extract::{ConnectInfo, MatchedPath, Request},
    http::{StatusCode, header},
    response::Response,
};
use serde_json::Value;
use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    net::IpAddr,
    sync::atomic::Ordering,
    time::Duration,
};
use workflows::audit::{Denial, Denied};

/// The interval at which a delayed answer checks if the server stops.
const SLICE: Duration = Duration::from_millis(250);

/// The authenticated caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Requester {
    /// The name of a user, of a cluster, or of the agents of a cluster.
    pub(in crate::http) name: String,
    /// The tenant to which the caller is bound.
    pub(in crate::http) tenant: Option<String>,
    /// True if a resource was hidden from the caller.
    pub(in crate::http) kept_out: bool,
}

impl From<&Caller> for Requester {
    fn from(caller: &Caller) -> Self {
        Self { name: caller.name.clone(), tenant: caller.tenant.clone(), kept_out: caller.was_kept_out() }
    }
}

impl Requester {
    /// Creates a requester with this name.
    pub(in crate::http) fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), tenant: None, kept_out: false }
    }
}

/// The reason of a refusal, attached to the answer.
#[derive(Clone, Debug)]
pub(in crate::http) struct DenialReason {
    /// The status of the problem. A browser that returns from an identity provider gets a redirect instead.
    pub(in crate::http) status: StatusCode,
    /// The code of the problem.
    pub(in crate::http) code: String,
    /// The detail of the problem.
    pub(in crate::http) why: String,
    /// The caller, if already authenticated.
    pub(in crate::http) asker: Option<Requester>,
}

impl DenialReason {
    /// Returns true if an answer with this status can be a refusal.
    pub(in crate::http) fn may_be(status: StatusCode) -> bool {
        [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::NOT_FOUND].contains(&status)
    }

    /// Parses the reason from the text of a problem.
    pub(in crate::http) fn said(status: StatusCode, body: &str) -> Option<Self> {
        let problem: Value = Self::may_be(status).then(|| serde_json::from_str(body).ok()).flatten()?;
        let text = |name: &str| problem.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Some(Self { status, code: text("code"), why: text("detail"), asker: None })
    }
}

/// The parts of a request that a refusal records.
pub(in crate::http) struct RequestSummary {
    from: Option<IpAddr>,
    asked: String,
    at: String,
    token: Option<String>,
    proof: Option<u64>,
}

impl RequestSummary {
    pub(in crate::http) fn of(request: &Request) -> Self {
        let from =
            request.extensions().get::<ConnectInfo<PeerAddress>>().map(|ConnectInfo(peer)| peer.0.ip());
        let route = request.extensions().get::<MatchedPath>().map_or("unknown", MatchedPath::as_str);
        let header = request.headers().get(header::AUTHORIZATION);
        let text = header.and_then(|value| value.to_str().ok());
        Self {
            from: from.map(|from| from.to_canonical()),
            asked: format!("{} {}", request.method(), outer_path(route)),
            at: outer_path(request.uri().path()),
            token: text.and_then(bearer).map(|token| token.id),
            proof: header.map(|value| hash(value.as_bytes())),
        }
    }

    /// Records the answer to the request `id` if it is a refusal. Returns the delay of the answer, which slows down guessing.
    pub(in crate::http) fn answered(self, app: &SharedState, id: &str, answer: &Response) -> Duration {
        let Some(refused) = answer.extensions().get::<DenialReason>() else { return Duration::ZERO };
        let asker = refused.asker.clone().or_else(|| answer.extensions().get::<Requester>().cloned());
        let kept_out = asker.as_ref().is_some_and(|asker| asker.kept_out);
        if refused.status == StatusCode::NOT_FOUND && !kept_out {
            return Duration::ZERO;
        }
        let now = app.engine.clock().now();
        let (guess, free) = (self.guess(&refused.code, now.0), app.config.http.guesses);
        // A hidden resource is not named in the audit of the caller's tenant, because that would reveal that it exists.
        let hidden = refused.status == StatusCode::NOT_FOUND;
        let outside = hidden || ProblemCode::named(&refused.code) == Some(ProblemCode::ForeignTenant);
        let seen = DenialContext { from: self.from, known: asker.is_some(), hidden, guess, free };
        let tenant = asker.as_ref().filter(|_| !outside).and_then(|asker| asker.tenant.clone());
        let denial = Denial {
            who: asker.map_or_else(|| Denial::UNKNOWN.to_owned(), |asker| asker.name),
            tenant: tenant.unwrap_or_default(),
            path: self.at,
            code: refused.code.clone(),
            why: refused.why.clone(),
            what: Denied {
                from: self.from.map_or_else(|| Denial::UNKNOWN.to_owned(), |from| from.to_string()),
                asked: self.asked,
                token: self.token,
                request: Some(id.to_owned()),
                times: 1,
                since: now.into(),
                until: now.into(),
            },
        };
        app.denials.note(denial, seen, &app.refusals, now)
    }

    /// Returns the guess that the request made, if it tried a credential.
    fn guess(&self, code: &str, now: u64) -> Option<u64> {
        let code = ProblemCode::named(code)?;
        if code == ProblemCode::BadToken {
            return self.proof;
        }
        // The credential is not known here; every sign-in attempt has a different one.
        (code == ProblemCode::LoginRefused).then_some(now)
    }
}

/// Waits for `left`, unless the server stops.
pub(in crate::http) async fn delay(app: &SharedState, mut left: Duration) {
    while !left.is_zero() && !app.stopping.load(Ordering::Acquire) {
        let slice = left.min(SLICE);
        tokio::time::sleep(slice).await;
        left = left.saturating_sub(slice);
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}
