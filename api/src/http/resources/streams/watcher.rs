//! A stream: first the missed changes, then live changes, until it ends.
//!
//! Invariant: each change after the client's last event is sent once, in commit order. If that is impossible, the stream sends `reset`, and then the present
//! list.

use crate::{
    http::{
        problem::Problem,
        resources::{
            approvals, search,
            streams::{
                replay::{Replay, ReplayStep},
                subject::Subject,
            },
        },
    },
    state::{
        SharedState,
        change_feed::{
            Subscription,
            change::Change,
            position::Position,
            quota::{StreamPermit, WatcherIdentity},
        },
    },
};
use axum::response::sse::Event;
use engine::ApprovalRecord;
use futures_util::{Stream, stream};
use serde_json::{Value, json};
use std::{collections::VecDeque, convert::Infallible, time::Duration};
use tokio::{
    sync::broadcast::error::{RecvError, TryRecvError},
    time::Instant,
};

/// How long a disconnected client waits before it reconnects.
const RETRY: Duration = Duration::from_secs(2);
/// The interval of heartbeats, which also carry the position.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The stage of a stream.
enum Stage {
    /// It sends missed changes.
    Past(Replay),
    /// It sends the present list, with the reason for a reset.
    Anew(Option<&'static str>),
    /// It sends live changes.
    Live,
    /// It has ended.
    Over,
}

/// The state of a stream.
pub(super) struct Watcher {
    app: SharedState,
    standing: WatcherIdentity,
    place: StreamPermit,
    listener: Subscription,
    subject: Subject,
    stage: Stage,
    /// The position of the last change that was sent.
    told: Position,
    waiting: VecDeque<Event>,
    /// The time of the next heartbeat.
    beat: Instant,
}

impl Watcher {
    pub(super) fn new(
        app: SharedState,
        (standing, place): (WatcherIdentity, StreamPermit),
        listener: Subscription,
        subject: Subject,
        after: Option<Position>,
    ) -> Self {
        let stage = match (&subject, after) {
            // For one execution, the journal is the present state.
            (Subject::One { .. }, after) => Stage::Past(Replay::from(after)),
            (Subject::Found(_) | Subject::Approvals(_), Some(after)) => {
                Stage::Past(Replay::from(Some(after)))
            }
            (Subject::Found(_) | Subject::Approvals(_), None) => Stage::Anew(None),
        };
        let told = after.unwrap_or_else(|| app.feed.reached(app.engine.clock().now()));
        let waiting = [Event::default().retry(RETRY)].into();
        let beat = Instant::now() + HEARTBEAT;
        Self { app, standing, place, listener, subject, stage, told, waiting, beat }
    }

    /// Returns the events of the stream.
    pub(super) fn events(self) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
        stream::unfold(self, |mut watcher| async move {
            let event = watcher.next().await?;
            Some((Ok(event), watcher))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            self.see_whether_it_ends();
            if let Some(event) = self.waiting.pop_front() {
                self.beat = Instant::now() + HEARTBEAT;
                return Some(event);
            }
            match &mut self.stage {
                Stage::Over => return None,
                Stage::Anew(why) => {
                    let why = *why;
                    self.anew(why).await;
                }
                Stage::Past(walk) => {
                    let mut walk = *walk;
                    match walk.next(&self.app, self.subject.topic(), &self.standing).await {
                        Ok(missed) => self.take_missed(missed, walk),
                        Err(error) => self.fail(&error),
                    }
                }
                Stage::Live => self.hear().await,
            }
        }
    }

    /// Ends the stream in time, even if its client is slow.
    fn see_whether_it_ends(&mut self) {
        if matches!(self.stage, Stage::Over) {
            return;
        }
        let why = if self.listener.over() { Some("stopping") } else { self.place.over() };
        if let Some(why) = why {
            self.waiting.clear();
            self.end(why);
        }
    }

    fn end(&mut self, why: &'static str) {
        self.say("end", None, &json!({ "why": why }).to_string());
        self.stage = Stage::Over;
    }

    /// After an error of the store, the client reconnects and continues from its last event.
    fn fail(&mut self, error: &engine::Error) {
        tracing::warn!(%error, "a stream ends, because its changes cannot be read");
        self.end("unavailable");
    }

    fn say(&mut self, name: &str, id: Option<Position>, data: &str) {
        let event = Event::default().event(name).data(data);
        self.waiting.push_back(match id {
            Some(id) => event.id(id.to_string()),
            None => event,
        });
    }

    async fn hear(&mut self) {
        tokio::select! {
            biased;
            () = self.place.ends() => {}
            () = tokio::time::sleep_until(self.beat) => self.beat(),
            heard = self.listener.hear() => match heard {
                Some(Ok(change)) => self.take(&change),
                Some(Err(RecvError::Lagged(_))) => self.missed(),
                Some(Err(RecvError::Closed)) | None => self.end("stopping"),
            }
        }
    }

    /// Sends a heartbeat. If everything up to a position was sent, it carries the position, so that a client with few events does not fall far behind.
    fn beat(&mut self) {
        let reached = self.app.feed.reached(self.app.engine.clock().now());
        let beat = Event::default().comment("");
        match self.listener.told.try_recv() {
            Ok(change) => {
                self.waiting.push_back(beat);
                self.take(&change);
            }
            Err(TryRecvError::Lagged(_)) => self.missed(),
            Err(TryRecvError::Closed) => self.end("stopping"),
            Err(TryRecvError::Empty) => {
                let is_on = reached.after() > self.told.after();
                self.told = if is_on { reached } else { self.told };
                self.waiting.push_back(if is_on { beat.id(reached.to_string()) } else { beat });
            }
        }
    }

    /// The client was too slow and missed live changes. The journal of one execution is read again; for a list, the present list is sent.
    fn missed(&mut self) {
        self.listener.renewed();
        self.stage = match &self.subject {
            Subject::One { .. } => Stage::Past(Replay::from(Some(self.told))),
            Subject::Found(_) | Subject::Approvals(_) => Stage::Anew(Some("slow")),
        };
    }

    fn take(&mut self, change: &Change) {
        if change.position.after() <= self.told.after() {
            return;
        }
        for (name, data) in self.subject.tells(&self.app, &self.standing, change) {
            self.say(name, Some(change.position), &data);
            self.told = change.position;
        }
        let is_one = matches!(&self.subject, Subject::One { id, .. } if *id == change.execution);
        if is_one && change.is_last() {
            self.end("finished");
        }
    }

    fn take_missed(&mut self, missed: ReplayStep, walk: Replay) {
        let (changes, reached, next) = match missed {
            ReplayStep::Some(changes, reached) => (changes, reached, Stage::Past(walk)),
            ReplayStep::All(changes, reached) => (changes, reached, Stage::Live),
            ReplayStep::Lost(why) => {
                self.stage = Stage::Anew(Some(why));
                return;
            }
        };
        let is_all = matches!(next, Stage::Live);
        self.stage = next;
        for change in &changes {
            for (name, data) in self.subject.tells(&self.app, &self.standing, change) {
                self.say(name, Some(change.position), &data);
            }
        }
        self.told = reached;
        if let (Subject::One { over, .. }, true) = (&self.subject, is_all)
            && (*over || changes.iter().any(Change::is_last))
        {
            self.end("finished");
        }
    }

    /// Sends the present list. With a reason, everything sent before is void.
    async fn anew(&mut self, why: Option<&'static str>) {
        let at = self.app.feed.reached(self.app.engine.clock().now());
        let present = self.present().await;
        let present = match present {
            Ok(present) => present,
            Err(problem) => {
                tracing::warn!(
                    why = problem.detail(),
                    "a stream ends, because the present list cannot be read"
                );
                return self.end("unavailable");
            }
        };
        if let Some(why) = why {
            self.say("reset", None, &json!({ "why": why }).to_string());
        }
        self.say("present", Some(at), &present.to_string());
        self.told = at;
        self.stage = Stage::Live;
    }

    /// Returns the first page of the list, as the list route would.
    async fn present(&mut self) -> Result<Value, Problem> {
        match &mut self.subject {
            Subject::One { .. } => Ok(Value::Null),
            Subject::Found(conditions) => {
                let found = search::page(&self.app, &conditions.wanted, &conditions.query()).await?;
                conditions.begins(&found.items, found.next.is_none());
                Ok(json!(search::rows(&self.app, &found).await.0))
            }
            Subject::Approvals(watched) => {
                let WatcherIdentity { caller, person } = &self.standing;
                let page = watched.begins()?;
                let takes = |case: &ApprovalRecord| watched.takes(caller, person, case);
                Ok(json!(approvals::listed(&self.app, page, takes).await?))
            }
        }
    }
}
