//! Streams: a reader receives each permitted event once, and resumes after an interruption. Against a real server.

mod bounds;
mod heard;
mod many;
mod resumed;

use crate::served::Served;
use reqwest::Method;
use serde_json::Value;
use std::{collections::VecDeque, time::Duration};

/// The maximum wait for an event, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A received event.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Told {
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) data: Value,
}

impl Told {
    /// Returns the execution of the event.
    pub(crate) fn execution(&self) -> &str {
        self.data["execution"]["id"].as_str().unwrap_or_else(|| panic!("{self:?}"))
    }

    /// Returns the part of the event that does not depend on its time.
    pub(crate) fn fact(&self) -> (String, String, Value) {
        (self.id.clone(), self.execution().to_owned(), self.data["entries"].clone())
    }
}

/// A stream that is open.
pub(crate) struct Stream {
    answer: reqwest::Response,
    rest: String,
    told: VecDeque<Told>,
    /// The id of the last read event.
    pub(crate) last: String,
}

impl Stream {
    /// Opens a stream as the holder of `token`, after the event `after` if that is not empty.
    pub(crate) async fn open(served: &Served, token: &str, path: &str, after: &str) -> Self {
        let answer = ask(served, token, path, after).await;
        assert_eq!(answer.status(), 200, "{path}: {}", answer.text().await.unwrap());
        assert_eq!(answer.headers()["content-type"], "text/event-stream");
        Self { answer, rest: String::new(), told: VecDeque::new(), last: after.to_owned() }
    }

    /// Reads the next part into the buffer; `false` at the end.
    async fn read(&mut self) -> bool {
        let Ok(Some(chunk)) = self.answer.chunk().await else { return false };
        self.rest.push_str(std::str::from_utf8(&chunk).expect("whole characters"));
        while let Some((block, rest)) = self.rest.split_once("\n\n") {
            let (block, rest) = (block.to_owned(), rest.to_owned());
            self.rest = rest;
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|line| line.strip_prefix(": ")).unwrap_or_default().to_owned()
            };
            if !field("data").is_empty() {
                let data = serde_json::from_str(&field("data")).unwrap();
                self.told.push_back(Told { name: field("event"), id: field("id"), data });
            }
        }
        true
    }

    /// Returns the next event; `None` once the stream has ended.
    pub(crate) async fn next(&mut self) -> Option<Told> {
        // Keep-alive messages are no progress.
        let heard = async { while self.told.is_empty() && self.read().await {} };
        tokio::time::timeout(PATIENCE, heard).await.expect("an event comes");
        let told = self.told.pop_front()?;
        if !told.id.is_empty() {
            self.last.clone_from(&told.id);
        }
        Some(told)
    }

    /// Returns the next event, which must exist.
    pub(crate) async fn must(&mut self) -> Told {
        self.next().await.expect("the stream goes on")
    }

    /// Returns all events up to the first match.
    pub(crate) async fn until(&mut self, so: impl Fn(&Told) -> bool) -> Vec<Told> {
        let mut all = Vec::new();
        loop {
            all.push(self.must().await);
            if all.last().is_some_and(&so) {
                return all;
            }
        }
    }

    /// Returns true if there is no event for this span.
    pub(crate) async fn is_silent(&mut self, span: Duration) -> bool {
        let heard = async { while self.told.is_empty() && self.read().await {} };
        tokio::time::timeout(span, heard).await.is_err()
    }
}

/// Returns the answer to a request for a stream.
pub(crate) async fn ask(served: &Served, token: &str, path: &str, after: &str) -> reqwest::Response {
    let request = served.ask(Method::GET, path).bearer_auth(token);
    let request = if after.is_empty() { request } else { request.header("last-event-id", after) };
    request.send().await.unwrap()
}

/// Returns true if the event says that an execution has ended.
pub(crate) fn ends(told: &Told) -> bool {
    let entries = told.data["entries"].as_array().cloned().unwrap_or_default();
    let turned = |entry: &Value| {
        entry["detail"]["phase"].as_str().is_some_and(|turned| turned.ends_with("> finished"))
    };
    entries.iter().any(turned)
}

/// The journal of an execution.
pub(crate) async fn journal(served: &Served, id: &str) -> Vec<Value> {
    served.get(&format!("/v1/executions/{id}/journal")).await.body["items"].as_array().unwrap().clone()
}
