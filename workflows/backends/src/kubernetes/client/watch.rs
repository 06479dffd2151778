//! Waiting by a watch, in place of looking again and again.
//!
//! Invariant: a watch says when to look and never what there is. What a wait ends with was read, so a word that is lost, comes late or is
//! of an object made since costs time and nothing else. Where the server has forgotten what the watch began with (410) or the connection
//! breaks, the object is read and the watch begun again from there.

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

/// How many calls wait in this way at a time; whoever comes then is answered at once, and asks again.
pub(in crate::kubernetes) const AT_A_TIME: usize = 16;
/// Between the end of a watch that says nothing of the object and the next look.
const BETWEEN: Duration = Duration::from_millis(200);

/// What a watch came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchResult {
    /// There is something to be seen.
    Look,
    /// It broke off, or its beginning is forgotten: what there is now is not known.
    Lost,
    /// Nothing happened until the time was up.
    Silence,
    /// There is none: it is not allowed, not served or too much for the server.
    None,
}

impl KubernetesCluster {
    /// The object at `path` once it is gone, was replaced or is `so`; as it stands when the time for that is up, or where nothing can be watched.
    ///
    /// `live` is it as it was read last; `patience` is [for how long](Self::patience), and `until` the end of the call.
    ///
    /// # Errors
    /// Those of a read.
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

    /// Until when a call that ends at `until` may wait.
    pub(in crate::kubernetes) fn patience(&self, until: Instant) -> Instant {
        let now = Instant::now();
        // The other half is for what the call does next.
        now + Duration::from_millis(self.target.watch_ms).min(until.duration_since(now) / 2)
    }

    /// Listens until there is something to be seen of this very object.
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

/// The request for a watch of the one object, from the version that was read on.
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

/// What a refusal means. Not being allowed to watch costs the time until the next look, and is no failure.
fn refused(path: &str, status: http::StatusCode) -> WatchResult {
    if status == http::StatusCode::GONE {
        return WatchResult::Lost;
    }
    tracing::debug!(path, code = status.as_u16(), "it cannot be watched");
    WatchResult::None
}
