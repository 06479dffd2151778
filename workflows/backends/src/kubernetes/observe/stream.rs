//! Lists a kind page by page and watches it from there, as kube's `watcher` does, with bounded answers.
//!
//! Invariant: `InitDone` follows only after the last page. A watch starts at the version of the list or of the last event, and a version that the server no longer
//! has (410) leads to another list.

use super::{Finding, ObserverContext, SourceEvent, decode::Names};
use crate::{
    kubernetes::{
        client::{
            error::Fault,
            request::{self, ApiRequest},
        },
        labels::{text, version},
    },
    outbound::{self, Frames},
};
use kube::core::WatchEvent as ServerEvent;
use serde_json::Value;
use std::time::Duration;
use tokio::{
    sync::mpsc::Sender,
    time::{Instant, sleep, timeout_at},
};
use workflows::observed::{Batch, Mark, Uid, WatchEvent};

/// The times of a stream.
#[derive(Clone, Copy, Debug)]
pub(super) struct StreamSettings {
    /// How long the server keeps a watch open. It sends a bookmark within this time.
    pub(super) watch: Duration,
    /// How long beyond that the client waits, and how long for a page of a list.
    pub(super) answer: Duration,
    /// The first pause after a failure. Each further one is twice as long.
    pub(super) first_pause: Duration,
    /// The longest pause.
    pub(super) longest_pause: Duration,
}

impl Default for StreamSettings {
    fn default() -> Self {
        Self {
            watch: Duration::from_secs(60),
            answer: Duration::from_secs(30),
            first_pause: Duration::from_millis(800),
            longest_pause: Duration::from_secs(30),
        }
    }
}

/// A function that decodes objects.
type Decode<T> = fn(&Value, &Names) -> Result<T, String>;

/// A stream of one kind of object.
pub(super) struct Stream<'a, T> {
    client: &'a kube::Client,
    names: Names,
    context: ObserverContext,
    to: Sender<SourceEvent<T>>,
    settings: StreamSettings,
    mark: Mark,
    /// The version of the last event that was sent.
    version: Option<String>,
}

/// How a list or watch ended without success.
enum Stop {
    /// The receiver is gone.
    Closed,
    /// The version is no longer served.
    Expired,
    /// The watch had no event until its time was over.
    Quiet,
    /// It failed.
    Failed(Finding),
}

impl From<Finding> for Stop {
    fn from(finding: Finding) -> Self {
        Self::Failed(finding)
    }
}

impl<'a, T> Stream<'a, T> {
    pub(super) fn new(
        client: &'a kube::Client,
        names: Names,
        (context, to): (ObserverContext, Sender<SourceEvent<T>>),
        settings: StreamSettings,
    ) -> Self {
        let mark = Mark { term: context.term, round: 0, seq: 0 };
        Self { client, names, context, to, settings, mark, version: None }
    }

    /// Lists and watches until the receiver is dropped.
    pub(super) async fn run(mut self, path: &str, decode: Decode<T>) {
        let mut pause = self.settings.first_pause;
        let mut at: Option<String> = None;
        loop {
            let stop = match at.take() {
                None => match self.list(path, decode).await {
                    Ok(version) => {
                        at = Some(version);
                        continue;
                    }
                    Err(stop) => stop,
                },
                Some(version) => match self.watch(path, version.clone(), decode).await {
                    Ok(version) => {
                        (at, pause) = (Some(version), self.settings.first_pause);
                        continue;
                    }
                    // The same version is watched again, unless an event of it was lost.
                    Err(stop) => {
                        at = matches!(stop, Stop::Failed(Finding::Unanswered(_) | Finding::Silent))
                            .then_some(self.version.take().unwrap_or(version));
                        stop
                    }
                },
            };
            match stop {
                Stop::Closed => return,
                Stop::Quiet => continue,
                Stop::Expired => {}
                Stop::Failed(finding) => {
                    if self.to.send(SourceEvent::Finding(finding)).await.is_err() {
                        return;
                    }
                }
            }
            sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
            pause = pause.saturating_mul(2).min(self.settings.longest_pause);
        }
    }

    async fn send(&mut self, events: Vec<WatchEvent<T>>) -> Result<(), Stop> {
        let batch = Batch { mark: self.mark, at: (self.context.now)(), events };
        self.mark.seq = self.mark.seq.saturating_add(1);
        self.to.send(SourceEvent::Batch(batch)).await.map_err(|_| Stop::Closed)
    }

    /// Sends a complete list as one round. Returns its version.
    async fn list(&mut self, path: &str, decode: Decode<T>) -> Result<String, Stop> {
        (self.mark.round, self.mark.seq) = (self.mark.round.saturating_add(1), 0);
        let mut events = vec![WatchEvent::Init];
        let mut next = String::new();
        loop {
            // Without a version, the server answers with the latest state.
            let ask = ApiRequest::get(path).with("limit", "500");
            let ask = if next.is_empty() { ask } else { ask.with("continue", &next) };
            let page = request::send(self.client, &ask, Instant::now() + self.settings.answer).await;
            let page = page.map_err(stop)?;
            let Some(items) = page.get("items") else {
                return Err(Finding::Unanswered(format!("{path}: the answer is no list")).into());
            };
            for item in items.as_array().into_iter().flatten() {
                events.push(WatchEvent::InitApply(decode(item, &self.names).map_err(Finding::Undecoded)?));
            }
            text(&page, &["metadata", "continue"]).clone_into(&mut next);
            if next.is_empty() {
                events.push(WatchEvent::InitDone);
                self.send(events).await?;
                return Ok(text(&page, &["metadata", "resourceVersion"]).to_owned());
            }
            self.send(std::mem::take(&mut events)).await?;
        }
    }

    /// Watches from a version until the server ends the watch. Returns the version to continue at.
    async fn watch(&mut self, path: &str, from: String, decode: Decode<T>) -> Result<String, Stop> {
        // A version of an earlier watch must not replace `from`.
        self.version = None;
        let ask = ApiRequest::get(path)
            .with("watch", "true")
            .with("allowWatchBookmarks", "true")
            .with("resourceVersion", &from)
            .with("timeoutSeconds", &self.settings.watch.as_secs().max(1).to_string());
        let Some(request) = ask.watched() else {
            return Err(Finding::Unanswered(format!("{path} is no path")).into());
        };
        let until = Instant::now() + self.settings.watch + self.settings.answer;
        let answer = match timeout_at(until, self.client.send(request)).await {
            Err(_) => return Err(Finding::Silent.into()),
            Ok(Err(error)) => return Err(Finding::Unanswered(format!("{path}: {error}")).into()),
            Ok(Ok(answer)) => answer,
        };
        if !answer.status().is_success() {
            return Err(refused(answer.status().as_u16(), path));
        }
        let mut events = Frames::new(answer.into_body(), outbound::PAGE);
        loop {
            let event = match timeout_at(until, events.next()).await {
                Err(_) => return Err(Finding::Silent.into()),
                Ok(Err(error)) => return Err(Finding::Undecoded(format!("{path}: {error}")).into()),
                Ok(Ok(event)) => event,
            };
            // A watch that ends at once is broken; it must not be repeated without a pause.
            let Some(event) = event else {
                return self.version.take().ok_or_else(|| self.quiet_end(path, until));
            };
            let version = self.take(&event, decode).await?;
            self.version = Some(version);
        }
    }

    /// Returns how a watch without an event ended: by its time or before.
    fn quiet_end(&self, path: &str, until: Instant) -> Stop {
        let left = until.saturating_duration_since(Instant::now());
        if left <= self.settings.answer + self.settings.watch / 2 {
            // Bookmarks are optional. Another list proves that nothing was missed.
            return Stop::Quiet;
        }
        Stop::Failed(Finding::Unanswered(format!("{path}: the watch ended before its time")))
    }

    /// Sends an event. Returns its version.
    async fn take(&mut self, event: &str, decode: Decode<T>) -> Result<String, Stop> {
        let event: ServerEvent<Value> =
            serde_json::from_str(event).map_err(|error| Finding::Undecoded(error.to_string()))?;
        match event {
            ServerEvent::Added(object) | ServerEvent::Modified(object) => {
                let changed = decode(&object, &self.names).map_err(Finding::Undecoded)?;
                self.send(vec![WatchEvent::Apply(changed)]).await?;
                Ok(version(&object).to_owned())
            }
            ServerEvent::Deleted(object) => {
                // The last state says whether the containers have terminated.
                let last = decode(&object, &self.names).map_err(Finding::Undecoded)?;
                let uid = Uid::of(crate::kubernetes::labels::uid(&object));
                self.send(vec![WatchEvent::Apply(last), WatchEvent::Delete(uid)]).await?;
                Ok(version(&object).to_owned())
            }
            ServerEvent::Bookmark(bookmark) => {
                self.send(Vec::new()).await?;
                Ok(bookmark.metadata.resource_version)
            }
            ServerEvent::Error(status) if status.code == 410 => Err(Stop::Expired),
            ServerEvent::Error(status) => Err(Finding::Unanswered(status.message).into()),
        }
    }
}

fn stop(fault: Fault) -> Stop {
    match fault {
        Fault::Refused(refusal) => refused(refusal.status, &refusal.error().message),
        Fault::Lost(error) => Finding::Unanswered(error.message).into(),
    }
}

fn refused(status: u16, about: &str) -> Stop {
    match status {
        401 | 403 => Finding::Denied(about.to_owned()).into(),
        404 => Finding::Unserved(about.to_owned()).into(),
        410 => Stop::Expired,
        _ => Finding::Unanswered(format!("{about}: status {status}")).into(),
    }
}
