//! Requests that start an execution: preview, start and follow, for every workflow.

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

/// Options of every command that starts an execution.
#[derive(Debug, Args)]
pub(crate) struct StartArgs {
    #[command(flatten)]
    pub(crate) dry_run: DryRun,
    /// Wait until it ends, parks, or needs an approval (exit 10).
    #[arg(long, group = "following")]
    pub(crate) wait: bool,
    /// Wait until it ends or parks, also through approvals.
    #[arg(long, group = "following")]
    pub(crate) watch: bool,
    /// Longest wait, such as `30m`.
    #[arg(long, value_name = "SPAN", requires = "following", value_parser = wait::span)]
    pub(crate) timeout: Option<std::time::Duration>,
    /// Label for the execution, such as `team=ml` (repeatable).
    #[arg(long = "label", value_name = "LABEL", value_parser = label)]
    pub(crate) labels: Vec<String>,
    /// Idempotency key [default: generated and shown on standard error].
    #[arg(long, value_name = "KEY")]
    pub(crate) idempotency_key: Option<String>,
}

/// Validates a label with the server's rule.
fn label(text: &str) -> Result<String, String> {
    let fits = !text.trim().is_empty() && text.len() <= 128 && !text.contains(char::is_control);
    let rule = "use 1 to 128 bytes without control characters, such as team=ml";
    if fits { Ok(text.to_owned()) } else { Err(format!("--label: {rule}")) }
}

/// Options to follow an execution after a command.
#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// Wait until it ends, parks, or needs an approval (exit 10).
    #[arg(long)]
    pub(crate) wait: bool,
    /// Longest wait, such as `30m`.
    #[arg(long, value_name = "SPAN", requires = "wait", value_parser = wait::span)]
    pub(crate) timeout: Option<std::time::Duration>,
}

impl FollowArgs {
    /// Does not follow the execution.
    pub(crate) const NOT: Self = Self { wait: false, timeout: None };

    /// Follows the execution if `--wait` is given, otherwise shows its state. A command that needs a second person is not followed.
    pub(crate) async fn from(&self, common: &Common, client: &Client, item: &Value) -> Result<Exit, Failure> {
        let id =
            item.get("id").and_then(Value::as_str).filter(|_| self.wait && item.get("proposal").is_none());
        let Some(id) = id else { return print_accepted(common, item) };
        let (item, exit) = wait::wait(client, id, Until::Rest, self.timeout).await?;
        print_at_rest(common, &item, exit)
    }
}

/// Previews or starts a workflow: sends `body` to the collection `path`. A non-empty `query` begins with `?`.
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
        output::note("this idempotency key was used before; this is the execution that it started");
    }
    if let Some(secret) = &answer.cluster_key {
        output::note(&format!("key of the tenant's own cluster, shown only once: {secret}"));
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

/// Previews a POST to `path`.
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
