//! Waiting for an execution: until it has finished, or waits for people.

use crate::{
    client::{Client, event_stream::Stream},
    execution::status::{progress, rest},
    output::{self, progress::Line},
};
use program::exit::{Exit, Failure};
use serde_json::Value;
use std::time::Duration;
use workflows::policy::duration;

/// How often it is looked where the server tells nothing by itself.
const EVERY: Duration = Duration::from_millis(300);

/// How far an execution is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// Until it has finished, is parked, or waits for people.
    Rest,
    /// Until it has finished or is parked.
    End,
}

/// How long to wait, read before anything is asked for.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let why = || format!("{text:?} is no span of time: write it like `30s` or `1h30m`");
    duration::parse(text).ok_or_else(why)
}

/// Follows the execution `id`; every change of state is told on standard error. Returns it as it is at the end, and
/// what that means to a script.
pub(crate) async fn wait(
    client: &Client,
    id: &str,
    until: Until,
    timeout: Option<Duration>,
) -> Result<(Value, Exit), Failure> {
    let limit = timeout.unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
    let over =
        || Failure::new(Exit::TimedOut, format!("execution {id} has not come to rest in time; it goes on"));
    let stopped = || {
        let message = format!("interrupted; execution {id} goes on: `tenure executions wait {id}`");
        Failure::new(Exit::Interrupted, message)
    };
    tokio::select! {
        ended = tokio::time::timeout(limit, follow(client, id, until)) => ended.map_err(|_| over())?,
        _ = tokio::signal::ctrl_c() => Err(stopped()),
    }
}

async fn follow(client: &Client, id: &str, until: Until) -> Result<(Value, Exit), Failure> {
    let path = format!("/v1/executions/{id}");
    let (mut seen, mut heard, mut away) = (Seen::new(), ChangeStream::default(), false);
    loop {
        match client.get(&path).await {
            Ok(answer) => {
                away = false;
                let item = answer.value()?;
                seen.see(&item);
                let goes_on = |exit: &Exit| until == Until::Rest || *exit != Exit::AwaitsApproval;
                if let Some(exit) = rest(&item).filter(goes_on) {
                    return Ok((item, exit));
                }
                seen.drawn.draw(&item);
            }
            // A server that restarts goes on with the execution, so the wait goes on too.
            Err(failure) if failure.exit == Exit::Unreachable => {
                if !away {
                    seen.drawn.clear();
                    output::note("the server does not answer; waiting for it");
                }
                away = true;
            }
            Err(failure) => return Err(failure),
        }
        heard.change(client, &path, &mut seen).await;
    }
}

/// What was told of an execution.
struct Seen {
    told: String,
    revision: u64,
    drawn: Line,
}

impl Seen {
    fn new() -> Self {
        Self { told: String::new(), revision: 0, drawn: Line::new() }
    }

    /// Tells where it stands, if that is news.
    fn see(&mut self, item: &Value) {
        let line = progress(item);
        // An attempt more in the same state is no news.
        let news = line.split_once(' ').map_or(line.as_str(), |(_, news)| news);
        if news != self.told {
            self.drawn.clear();
            output::note(&line);
            self.told = news.to_owned();
        }
        self.revision = self.revision.max(revision(item));
    }
}

fn revision(item: &Value) -> u64 {
    item.get("revision").and_then(Value::as_u64).unwrap_or(0)
}

/// How changes are heard of: by a stream, where the server has one.
#[derive(Default)]
struct ChangeStream {
    stream: Option<Stream>,
    last: Option<String>,
    /// The server has no streams, or none for us.
    never: bool,
}

impl ChangeStream {
    /// Waits until the execution may have changed since it was seen.
    async fn change(&mut self, client: &Client, path: &str, seen: &mut Seen) {
        if self.stream.is_none() && !self.never {
            match client.listen(&format!("{path}/events"), self.last.as_deref()).await {
                Ok(stream) => self.stream = stream,
                Err(failure) => {
                    let answered = failure.exit != Exit::Unreachable;
                    self.never = answered && failure.problem.as_ref().is_none_or(gives_up);
                }
            }
        }
        if let Some(stream) = &mut self.stream {
            while let Some(told) = stream.next().await {
                let data: Value = serde_json::from_str(&told.data).unwrap_or_default();
                if let Some(row) = data.get("execution").filter(|row| revision(row) > seen.revision) {
                    seen.see(row);
                    return;
                }
            }
            self.last = stream.last().map(ToOwned::to_owned);
            self.stream = None;
        }
        tokio::time::sleep(EVERY).await;
    }
}

/// Whether asking again for a stream is of no use.
fn gives_up(problem: &Value) -> bool {
    let code = problem.get("code").and_then(Value::as_str).unwrap_or_default();
    matches!(code, "route.unknown" | "route.method" | "stream.too_many")
}
