//! The simulated platform in this process, with every fault of the kit's proxy and no socket: with a paused clock, timeouts take no
//! time.

use async_trait::async_trait;
use backends::{
    http_response,
    simulated::{LocalWorld, Request, Response, World},
};
use engine::ActionError;
use reqwest::{
    StatusCode,
    header::{HeaderMap, HeaderValue, RETRY_AFTER},
};
use std::{
    mem::replace,
    sync::{Arc, Mutex},
    time::Duration,
};
use tests::kit::Trouble;
use workflows::platform::codes;

/// A simulated platform with faults in between, classified as an HTTP client would.
#[derive(Debug)]
pub(super) struct TroubledWorld {
    inner: Arc<LocalWorld>,
    trouble: Mutex<Trouble>,
}

impl TroubledWorld {
    pub(super) fn before(inner: Arc<LocalWorld>) -> Self {
        Self { inner, trouble: Mutex::new(Trouble::Calm) }
    }

    /// Injects this fault from now on.
    pub(super) fn trouble(&self, next: Trouble) {
        *self.trouble.lock().unwrap() = next;
    }

    /// Returns the fault for this call. A fault for one call ends with it.
    fn meets(&self, changes: bool) -> Trouble {
        let mut trouble = self.trouble.lock().unwrap();
        match *trouble {
            Trouble::LoseRequest | Trouble::LoseAnswer | Trouble::HalfDone if !changes => Trouble::Calm,
            Trouble::LoseRequest | Trouble::LoseAnswer => replace(&mut *trouble, Trouble::Calm),
            Trouble::HalfDone => {
                *trouble = Trouble::Down;
                Trouble::Calm
            }
            other => other,
        }
    }

    async fn carry(&self, request: Request, changing: bool) -> Result<Response, ActionError> {
        let refused = |status, headers: &HeaderMap| {
            let refused = http_response::refusal(status, headers, "in trouble", changing);
            Err(refused.expect("a status that refuses"))
        };
        match self.meets(request.verb.changes()) {
            Trouble::Calm | Trouble::HalfDone => self.inner.call(request).await,
            Trouble::LoseRequest => Err(lost(changing)),
            Trouble::LoseAnswer => {
                let _answer = self.inner.call(request).await;
                Err(lost(changing))
            }
            Trouble::Slow(span) => {
                tokio::time::sleep(span).await;
                self.inner.call(request).await
            }
            Trouble::Throttle(span) => {
                let seconds = u64::try_from(span.as_millis().div_ceil(1_000)).unwrap();
                let headers = [(RETRY_AFTER, HeaderValue::from(seconds))].into_iter().collect();
                refused(StatusCode::TOO_MANY_REQUESTS, &headers)
            }
            Trouble::Deny => refused(StatusCode::FORBIDDEN, &HeaderMap::new()),
            Trouble::Garbage => Err(http_response::unreadable("{\"\0<html>what?", changing)),
            Trouble::Down => Err(ActionError::transient(codes::UNAVAILABLE, "connection refused")),
            Trouble::NotSupported => refused(StatusCode::NOT_FOUND, &HeaderMap::new()),
        }
    }
}

fn lost(changing: bool) -> ActionError {
    if changing {
        ActionError::unknown(codes::NO_ANSWER, "the connection was closed")
    } else {
        ActionError::transient(codes::UNAVAILABLE, "the connection was closed")
    }
}

#[async_trait]
impl World for TroubledWorld {
    async fn call(&self, request: Request) -> Result<Response, ActionError> {
        let changing = request.verb.changes() && !request.dry_run;
        let deadline = Duration::from_millis(request.deadline_ms);
        tokio::time::timeout(deadline, self.carry(request, changing))
            .await
            .unwrap_or_else(|_| Err(lost(changing)))
    }
}
