//! Lists that are shown once, or again after each change.

use crate::{
    common::{Common, Format},
    output::{
        self, Column,
        style::{Paint, Stream},
        timestamps,
    },
};
use clap::Args;
use program::exit::{Exit, Failure};
use serde_json::Value;
use std::time::Duration;
use workflows::policy::duration;

/// Options that show a list again after each change.
#[derive(Clone, Debug, Args)]
pub(crate) struct WatchArgs {
    /// Watch for changes until interrupted.
    #[arg(short, long)]
    watch: bool,
    /// The interval between reads, such as `5s`.
    #[arg(long, value_name = "SPAN", default_value = "2s", value_parser = span, requires = "watch")]
    every: Duration,
}

fn span(text: &str) -> Result<Duration, String> {
    let span = duration::parse(text).filter(|span| !span.is_zero());
    span.ok_or_else(|| "write a span of at least 1s, such as 5s".to_owned())
}

impl WatchArgs {
    /// Shows the list once.
    pub(crate) const ONCE: Self = Self { watch: false, every: Duration::from_secs(2) };
}

/// Shows the result of `fetch` once, or again after each change.
pub(crate) async fn show(
    common: &Common,
    watching: &WatchArgs,
    columns: &[Column],
    fetch: impl AsyncFn() -> Result<Vec<Value>, Failure>,
) -> Result<Exit, Failure> {
    if !watching.watch {
        output::list(common.output, fetch().await?, columns)?;
        return Ok(Exit::Done);
    }
    tokio::select! {
        ended = again(common.output, watching.every, columns, fetch) => ended,
        _ = tokio::signal::ctrl_c() => Ok(Exit::Interrupted),
    }
}

async fn again(
    format: Format,
    every: Duration,
    columns: &[Column],
    fetch: impl AsyncFn() -> Result<Vec<Value>, Failure>,
) -> Result<Exit, Failure> {
    let redraws = Stream::Out.is_terminal() && format == Format::Table;
    let (mut told, mut away): (Option<Vec<Value>>, bool) = (None, false);
    loop {
        match fetch().await {
            Ok(items) => {
                away = false;
                if redraws {
                    output::redraw(&page(every, &output::listing(format, &items, columns)?))?;
                } else if told.as_ref() != Some(&items) {
                    // In a pipe, an empty line separates tables; JSON has one list a line.
                    let apart = if told.is_some() && format != Format::Json { "\n" } else { "" };
                    output::say(&format!("{apart}{}", output::listing(format, &items, columns)?))?;
                }
                told = Some(items);
            }
            // The server may be restarting, so the watch continues.
            Err(failure) if failure.exit == Exit::Unreachable && told.is_some() => {
                if !away {
                    output::note("the server does not answer; retrying");
                }
                away = true;
            }
            Err(failure) => return Err(failure),
        }
        tokio::time::sleep(every).await;
    }
}

/// Returns the screen: a heading and the list.
fn page(every: Duration, listing: &str) -> String {
    let at = timestamps::now().format("%Y-%m-%d %H:%M:%SZ");
    let head = format!("every {}, updated {at}, ctrl-c to stop", duration::show(every));
    format!("{}\n\n{listing}", Paint::Dim.on(Stream::Out, &head))
}
