//! The link to one server: pulls commands, executes them, and sends the answers.

use crate::options::Settings;
use backends::{
    agents::{Answer, Executor, IssuedCommand, NodeReport, PullRequest, PullResponse},
    outbound::{self, Unread},
};
use engine::ActionError;
use program::encoding::percent::encode as escape;
use reqwest::{Client, StatusCode};
use serde::{Serialize, de::DeserializeOwned};
use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::{
    sync::watch,
    task::AbortHandle,
    time::{Instant, sleep},
};
use workflows::platform::codes;

/// How long a pull waits for commands at the server.
const WAIT: Duration = Duration::from_secs(25);
/// The timeout of every other request.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// The first and the longest pause before a retry while a server cannot be reached.
const PAUSE: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));
/// The longest pause before a retry while a server rejects this agent.
const REFUSED: Duration = Duration::from_secs(10);
/// How long after a command's deadline its answer is still sent. Later, a repeated call finds the outcome.
const LATE: Duration = Duration::from_secs(5);

/// The link to one server.
pub(super) struct Link {
    server: String,
    base: String,
    key_file: PathBuf,
    instance: String,
    http: Client,
    hand: Arc<Executor>,
    /// Running commands, by id.
    holding: Mutex<BTreeMap<String, RunningOrder>>,
}

struct RunningOrder {
    task: AbortHandle,
}

/// The error of a request.
enum RequestError {
    /// The server cannot be reached or has an error.
    Away(String),
    /// The server rejects this agent.
    Refused(String),
}

/// Reads the key. It is read at each use, so it can be rotated in the file.
pub(super) fn key(file: &Path) -> Result<String, String> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("--key-file: {} cannot be read: {error}", file.display()))?;
    let key = text.trim();
    if key.is_empty() {
        return Err(format!("--key-file: {} is empty: `tenure agent key` generates a key", file.display()));
    }
    Ok(key.to_owned())
}

impl Link {
    /// Creates the link without a request.
    pub(super) fn to(
        server: &str,
        settings: &Settings,
        instance: &str,
        hand: Arc<Executor>,
    ) -> Result<Arc<Self>, reqwest::Error> {
        let http = outbound::client()
            .tls_certs_merge(settings.certificates.clone())
            .user_agent(concat!("tenure-agent/", env!("CARGO_PKG_VERSION")))
            .build()?;
        let (cluster, node) = (escape(&settings.target.cluster), escape(&settings.target.node));
        Ok(Arc::new(Self {
            server: server.to_owned(),
            base: format!("{server}/v1/agents/{cluster}/{node}"),
            key_file: settings.key_file.clone(),
            instance: instance.to_owned(),
            http,
            hand,
            holding: Mutex::default(),
        }))
    }

    fn held(&self) -> MutexGuard<'_, BTreeMap<String, RunningOrder>> {
        self.holding.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if a command has no answer yet.
    pub(super) fn has_orders(&self) -> bool {
        !self.held().is_empty()
    }

    fn pull(&self, wait: Duration) -> PullRequest {
        PullRequest {
            instance: self.instance.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            holding: self.held().keys().cloned().collect(),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        }
    }

    async fn send<T: DeserializeOwned>(
        &self,
        verb: &str,
        body: &impl Serialize,
        within: Duration,
    ) -> Result<T, RequestError> {
        let key = key(&self.key_file).map_err(RequestError::Refused)?;
        let request = self.http.post(format!("{}:{verb}", self.base)).bearer_auth(key).timeout(within);
        let away = |error: reqwest::Error| RequestError::Away(error_chain(&error));
        let answer = request.json(body).send().await.map_err(away)?;
        match answer.status() {
            status if status.is_success() => {
                let body = outbound::body(answer, outbound::PAGE).await.map_err(|error| match error {
                    Unread::Broken(error) => away(error),
                    Unread::TooLong(_) | Unread::Compressed(_) => RequestError::Away(error.to_string()),
                })?;
                serde_json::from_slice(&body).map_err(|error| RequestError::Away(error.to_string()))
            }
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND) => {
                let said = outbound::excerpt_text(answer).await;
                Err(RequestError::Refused(format!("{status}: {}", detail(&said))))
            }
            status => {
                let said = outbound::excerpt_text(answer).await;
                Err(RequestError::Away(format!("{status}: {}", detail(&said))))
            }
        }
    }

    /// Pulls commands until it is stopped. Survives outages of the server.
    pub(super) async fn come_for_orders(self: Arc<Self>, mut stop: watch::Receiver<bool>) {
        let (mut pause, mut linked) = (PAUSE.0, None);
        while !*stop.borrow() {
            let (began, pull) = (Instant::now(), self.pull(WAIT));
            let pulled: Result<PullResponse, RequestError> = tokio::select! {
                pulled = self.send("pull", &pull, WAIT + ANSWER_WITHIN) => pulled,
                _ = stop.wait_for(|stop| *stop) => break,
            };
            let rest = match pulled {
                Ok(pulled) => {
                    if linked != Some(true) {
                        tracing::info!(server = self.server, "linked");
                    }
                    (pause, linked) = (PAUSE.0, Some(true));
                    let idle = pulled == PullResponse::default() && began.elapsed() < WAIT / 2;
                    self.begin(pulled);
                    // A server that is about to stop answers at once, so the agent pauses.
                    if idle { PAUSE.0 } else { Duration::ZERO }
                }
                Err(trouble) => {
                    let (why, rest) = match trouble {
                        RequestError::Away(why) => (why, pause),
                        RequestError::Refused(why) => (why, REFUSED.min(pause * 4)),
                    };
                    if linked != Some(false) {
                        tracing::warn!(server = self.server, why, "no link to the server; retrying");
                    }
                    (pause, linked) = ((pause * 2).min(PAUSE.1), Some(false));
                    rest
                }
            };
            tokio::select! {
                () = sleep(rest) => {}
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }
        // Another agent gets commands that were sent and did not arrive. A server that cannot be reached drops them by itself.
        let left: Result<serde_json::Value, RequestError> =
            self.send("leave", &self.pull(Duration::ZERO), Duration::from_secs(2)).await;
        if let Err(RequestError::Away(why) | RequestError::Refused(why)) = left {
            tracing::info!(server = self.server, why, "the server does not know that this agent stops");
        }
    }

    fn begin(self: &Arc<Self>, pulled: PullResponse) {
        for id in &pulled.withdrawn {
            if let Some(held) = self.held().remove(id) {
                tracing::info!(server = self.server, id, "the server withdrew this command");
                held.task.abort();
            }
        }
        for order in pulled.orders {
            let mut held = self.held();
            if held.contains_key(&order.id) {
                continue;
            }
            let id = order.id.clone();
            // The lock is held until the task is stored, so that no answer is sent before.
            let task = tokio::spawn(self.clone().carry_out(order)).abort_handle();
            held.insert(id, RunningOrder { task });
        }
    }

    async fn carry_out(self: Arc<Self>, order: IssuedCommand) {
        let until = Instant::now() + Duration::from_millis(order.deadline_ms) + LATE;
        let call = <&str>::from(&order.command);
        tracing::info!(
            server = self.server,
            id = order.id,
            call,
            key = order.key,
            epoch = order.epoch,
            "command started"
        );
        let outcome = self.hand.carry_out(&order).await;
        match &outcome {
            Ok(_) => tracing::info!(id = order.id, call, key = order.key, "command done"),
            Err(error) => {
                tracing::info!(
                    id = order.id,
                    call,
                    key = order.key,
                    code = error.code,
                    why = error.message,
                    "command failed"
                );
            }
        }
        self.bring(Answer { id: order.id.clone(), outcome }, until).await;
        self.held().remove(&order.id);
    }

    /// Sends an answer, with retries while the server is away. If it is too late, a repeated call finds the outcome.
    async fn bring(&self, answer: Answer, until: Instant) {
        let mut pause = PAUSE.0;
        loop {
            let brought: Result<serde_json::Value, RequestError> =
                self.send("answer", &answer, ANSWER_WITHIN).await;
            let Err(RequestError::Away(why) | RequestError::Refused(why)) = brought else { return };
            if Instant::now() + pause >= until {
                tracing::warn!(
                    server = self.server,
                    id = answer.id,
                    why,
                    "an answer could not be sent in time"
                );
                return;
            }
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE.1);
        }
    }

    /// Aborts running commands and reports that their outcome is unknown.
    pub(super) async fn give_up(&self) {
        let held = std::mem::take(&mut *self.held());
        for (id, held) in held {
            held.task.abort();
            let why =
                "the agent stopped during the command; a repeated call finds the outcome or completes it";
            let outcome = Err(ActionError::unknown(codes::NO_ANSWER, why));
            let _: Result<serde_json::Value, RequestError> =
                self.send("answer", &Answer { id, outcome }, Duration::from_secs(2)).await;
        }
    }

    /// Reports the state of the node. Returns false if the server did not receive it.
    pub(super) async fn say_seen(&self, seen: &NodeReport) -> bool {
        self.send::<serde_json::Value>("see", seen, ANSWER_WITHIN).await.is_ok()
    }
}

/// Returns the detail of a problem document, or the beginning of any other answer.
fn detail(said: &str) -> String {
    let problem: serde_json::Value = serde_json::from_str(said).unwrap_or_default();
    let detail = problem.get("detail").and_then(serde_json::Value::as_str).unwrap_or(said);
    detail.chars().take(300).collect()
}

fn error_chain(error: &reqwest::Error) -> String {
    let mut said = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(deeper) = cause {
        said = format!("{said}: {deeper}");
        cause = deeper.source();
    }
    said
}
