//! Waits until an execution ends, parks, or needs an approval.

use crate::{
    client::{Client, event_stream::Stream},
    execution::status::{progress, rest},
    output::{self, progress::Line},
};
use program::exit::{Exit, Failure};
use serde_json::Value;
use std::time::Duration;
use workflows::policy::duration;

/// The interval between reads if the server has no event stream.
const EVERY: Duration = Duration::from_millis(300);

/// When to stop waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// When it ends, parks, or needs an approval.
    Rest,
    /// When it ends or parks.
    End,
}

/// Parses a span of time.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    let why = || format!("{text:?} is not a span; write `30s` or `1h30m`");
    duration::parse(text).ok_or_else(why)
}

/// Follows the execution `id` and writes each change of state to standard error. Returns the execution and the exit code.
pub(crate) async fn wait(
    client: &Client,
    id: &str,
    until: Until,
    timeout: Option<Duration>,
) -> Result<(Value, Exit), Failure> {
    let limit = timeout.unwrap_or(Duration::from_secs(u64::from(u32::MAX)));
    let over = || {
        Failure::new(
            Exit::TimedOut,
            format!("execution {id} did not end in time and continues; run `tenure executions wait {id}`"),
        )
    };
    let stopped = || {
        let message = format!("interrupted; execution {id} continues; run `tenure executions wait {id}`");
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
            // A server that restarts continues the execution, so the wait continues.
            Err(failure) if failure.exit == Exit::Unreachable => {
                if !away {
                    seen.drawn.clear();
                    output::note("the server does not answer; retrying");
                }
                away = true;
            }
            Err(failure) => return Err(failure),
        }
        heard.change(client, &path, &mut seen).await;
    }
}

/// The status that was last shown.
struct Seen {
    told: String,
    revision: u64,
    drawn: Line,
}

impl Seen {
    fn new() -> Self {
        Self { told: String::new(), revision: 0, drawn: Line::new() }
    }

    /// Shows the status if it changed.
    fn see(&mut self, item: &Value) {
        let line = progress(item);
        // Another attempt in the same state is not a change.
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

/// Waits for changes: with an event stream if the server has one, otherwise by polling.
#[derive(Default)]
struct ChangeStream {
    stream: Option<Stream>,
    last: Option<String>,
    /// The server offers no stream to this caller.
    never: bool,
}

impl ChangeStream {
    /// Waits until the execution may have changed.
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

/// Returns true if a retry of the stream cannot succeed.
fn gives_up(problem: &Value) -> bool {
    let code = problem.get("code").and_then(Value::as_str).unwrap_or_default();
    matches!(code, "route.unknown" | "route.method" | "stream.too_many")
}
