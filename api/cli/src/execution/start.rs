//! Requests that become executions: tried out, begun, and followed, alike for every workflow.

use crate::{
    client::{Body, Client},
    common::{Common, Format},
    dry_run::DryRun,
    execution::{
        status::{print_accepted, print_at_rest, print_status},
        wait::{self, Until},
    },
    output::{self, preview},
};
use clap::Args;
use engine::{Clock as _, SystemClock};
use program::{
    encoding::hex,
    exit::{Exit, Failure},
};
use serde_json::Value;

/// What every command takes that begins an execution.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) dry_run: DryRun,
    /// Wait until it has finished, or waits for people (exit 10).
    #[arg(long, group = "following")]
    pub(crate) wait: bool,
    /// Follow it until it has finished, also while people decide.
    #[arg(long, group = "following")]
    pub(crate) watch: bool,
    /// How long to wait or watch at most, like `30m`.
    #[arg(long, value_name = "SPAN", requires = "following", value_parser = wait::span)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// Write this on the execution, to find it by, like `team=ml`; may be repeated.
    #[arg(long = "label", value_name = "LABEL", value_parser = label)]
    pub(crate) labels: Vec<String>,
    /// The same key asks for the same once [default: drawn, and shown on standard error].
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

/// A label as the server takes it.
fn label(text: &str) -> Result<String, String> {
    let fits = !text.trim().is_empty() && text.len() <= 128 && !text.contains(char::is_control);
    let rule = "use 1 to 128 bytes without control characters, such as team=ml";
    if fits { Ok(text.to_owned()) } else { Err(format!("--label: {rule}")) }
}

/// Whether an execution is followed that was given a command.
#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// Wait until it has finished, or waits for people (exit 10).
    #[arg(long)]
    pub(crate) wait: bool,
    /// How long to wait at most, like `30m`.
    #[arg(long, value_name = "SPAN", requires = "wait", value_parser = wait::span)]
    pub(crate) timeout: Option<std::time::Duration>,
}

impl FollowArgs {
    /// Not at all.
    pub(crate) const NOT: Self = Self { wait: false, timeout: None };

    /// Shows where the execution stands that was given a command, or follows it. What waits for a second person goes nowhere yet.
    pub(crate) async fn from(&self, common: &Common, client: &Client, item: &Value) -> Result<Exit, Failure> {
        let id =
            item.get("id").and_then(Value::as_str).filter(|_| self.wait && item.get("proposal").is_none());
        let Some(id) = id else { return print_accepted(common, item) };
        let (item, exit) = wait::wait(client, id, Until::Rest, self.timeout).await?;
        print_at_rest(common, &item, exit)
    }
}

/// Tries out or begins what `body` asks for at the collection `path`; `query` begins with `?` if there is one.
pub(crate) async fn start(
    common: &Common,
    path: &str,
    query: &str,
    body: Body,
    starting: StartArgs,
) -> Result<Exit, Failure> {
    if starting.dry_run.is_wanted() {
        return preview_start(common, path, query, body, starting.dry_run).await;
    }
    let client = Client::of(common)?;
    let key = starting.idempotency_key.unwrap_or_else(|| {
        let drawn = hex::encode(&SystemClock.entropy());
        output::note(&format!("idempotency key: {drawn}"));
        drawn
    });
    let answer = client
        .post(&format!("{path}{query}"), Body { key: Some(key), labels: starting.labels, ..body })
        .await?;
    let item = answer.value()?;
    if answer.replayed {
        output::note("this was asked for before; here is what was started then");
    }
    if let Some(secret) = &answer.cluster_key {
        output::note(&format!("key of the tenant's own cluster, shown this once: {secret}"));
    }
    let until = match (starting.wait, starting.watch) {
        (true, _) => Until::Rest,
        (false, true) => Until::End,
        (false, false) => return print_status(common, &item),
    };
    let id = item.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    output::note(&format!("execution {id}"));
    let (item, exit) = wait::wait(&client, &id, until, starting.timeout).await?;
    print_at_rest(common, &item, exit)
}

/// What a POST to `path` would decide and do.
pub(crate) async fn preview_start(
    common: &Common,
    path: &str,
    query: &str,
    body: Body,
    dry_run: DryRun,
) -> Result<Exit, Failure> {
    let preview = Client::of(common)?.plan(path, query, body).await?.value()?;
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &preview)?,
        Format::Table => output::say(&preview::page(&preview))?,
    }
    if preview::refused(&preview) {
        return Ok(Exit::Refused);
    }
    Ok(dry_run.exit(preview::changes(&preview)))
}
