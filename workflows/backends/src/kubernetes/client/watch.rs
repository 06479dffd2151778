//! Waits for a change with a watch instead of polling.
//!
//! Invariant: a watch event only triggers a read, and the result of a wait is always read. A lost, late or unrelated
//! event therefore only costs time. If the server no longer has the start version (410) or the connection breaks, the
//! object is read and the watch starts again.

use crate::{
    kubernetes::{
        client::request::ApiRequest,
        cluster::KubernetesCluster,
        labels::{text, uid, version},
    },
    outbound::{self, Frames},
};
use engine::ActionError;
use kube::{client::Body, core::WatchEvent};
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};

/// The number of concurrent waits. Further calls are answered immediately and retried by their caller.
pub(in crate::kubernetes) const AT_A_TIME: usize = 16;
/// The delay between the end of a watch without an event and the next read.
const BETWEEN: Duration = Duration::from_millis(200);

/// The result of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchResult {
    /// The object may have changed.
    Look,
    /// The watch broke or its start version expired; the current state is unknown.
    Lost,
    /// No event until the time was up.
    Silence,
    /// A watch is not possible: it is not allowed, not served, or the server is overloaded.
    None,
}

impl KubernetesCluster {
    /// Waits until the object at `path` is gone, replaced, or satisfies `so`. Returns its last state if the time is up
    /// or no watch is possible.
    ///
    /// `live` is the last read state. `patience` is the [end of the wait](Self::patience), and `until` the end of the
    /// call.
    ///
    /// # Errors
    ///
    /// Errors of a read.
    pub(in crate::kubernetes) async fn awaited(
        &self,
        path: &str,
        live: Value,
        so: impl Fn(&Value) -> bool + Send + Sync,
        (patience, until): (Instant, Instant),
    ) -> Result<Option<Value>, ActionError> {
        let Ok(_one_of_some) = self.watching.try_acquire() else { return Ok(Some(live)) };
        let mut live = live;
        while Instant::now() < patience {
            match self.word(path, &live, &so, patience).await {
                WatchResult::Look => {}
                WatchResult::Lost => sleep(BETWEEN).await,
                WatchResult::Silence | WatchResult::None => break,
            }
            match self.object(path, until).await? {
                Some(found) if uid(&found) == uid(&live) && !so(&found) => live = found,
                other => return Ok(other),
            }
        }
        Ok(Some(live))
    }

    /// Returns how long a call that ends at `until` may wait.
    pub(in crate::kubernetes) fn patience(&self, until: Instant) -> Instant {
        let now = Instant::now();
        // The other half is reserved for the rest of the call.
        now + Duration::from_millis(self.target.watch_ms).min(until.duration_since(now) / 2)
    }

    /// Watches until an event for exactly this object arrives.
    async fn word(
        &self,
        path: &str,
        live: &Value,
        so: &(impl Fn(&Value) -> bool + Send + Sync),
        patience: Instant,
    ) -> WatchResult {
        let Some(request) = asked(path, live, patience) else { return WatchResult::None };
        let listening = async {
            let Ok(answer) = self.client.send(request).await else { return WatchResult::Lost };
            if !answer.status().is_success() {
                return refused(path, answer.status());
            }
            let mut events = Frames::new(answer.into_body(), outbound::PAGE);
            while let Ok(Some(event)) = events.next().await {
                match serde_json::from_str::<WatchEvent<Value>>(&event) {
                    Ok(WatchEvent::Added(seen) | WatchEvent::Modified(seen))
                        if uid(&seen) == uid(live) && !so(&seen) => {}
                    Ok(WatchEvent::Bookmark(_)) => {}
                    Ok(WatchEvent::Added(_) | WatchEvent::Modified(_) | WatchEvent::Deleted(_)) => {
                        return WatchResult::Look;
                    }
                    Ok(WatchEvent::Error(_)) | Err(_) => return WatchResult::Lost,
                }
            }
            WatchResult::Lost
        };
        timeout_at(patience, listening).await.unwrap_or(WatchResult::Silence)
    }
}

/// Returns the watch request for one object, from the version that was read.
fn asked(path: &str, live: &Value, patience: Instant) -> Option<http::Request<Body>> {
    let (collection, _escaped) = path.rsplit_once('/')?;
    let name = text(live, &["metadata", "name"]);
    let seconds = patience.duration_since(Instant::now()).as_secs() + 1;
    let ask = ApiRequest::get(collection)
        .with("watch", "true")
        .with("fieldSelector", &format!("metadata.name={name}"))
        .with("resourceVersion", version(live))
        .with("timeoutSeconds", &seconds.to_string());
    ask.watched()
}

/// Maps an error status. A denied watch is not a failure; it only delays the next read.
fn refused(path: &str, status: http::StatusCode) -> WatchResult {
    if status == http::StatusCode::GONE {
        return WatchResult::Lost;
    }
    tracing::debug!(path, code = status.as_u16(), "it cannot be watched");
    WatchResult::None
}
