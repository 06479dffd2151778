//! Batches, one command to many executions: `tenure executions cancel --filter …`, and `tenure batch`.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    dry_run::DryRun,
    execution::{
        act::{self, ExecutionAction},
        start::FollowArgs,
    },
    output::{self, Column},
    resources::{self, kinds::Kind, watch_list::WatchArgs},
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::{
    io::{self, IsTerminal as _},
    time::Duration,
};

/// Options of a command to one execution, or to all that match a filter.
#[derive(Debug, Args)]
pub(crate) struct ActionArgs {
    /// Execution id, or a unique prefix.
    #[arg(required_unless_present = "filter", conflicts_with = "filter")]
    pub(crate) id: Option<String>,
    /// Filter, such as `phase = parked and age > 2h` (see docs/search.md).
    #[arg(long, value_name = "FILTER")]
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) dry_run: DryRun,
    // Options of batches conflict with an id. Clap would not report that the filter is missing, because the id replaces it.
    /// Reject the batch if more executions match [default: 1000].
    #[arg(long, conflicts_with = "id", value_name = "N")]
    pub(crate) cap: Option<usize>,
    /// Highest rate, such as `10/s` [default: 50/s].
    #[arg(long, conflicts_with = "id", value_name = "N/s", value_parser = rate)]
    pub(crate) rate: Option<u32>,
    /// Do not ask for confirmation.
    #[arg(long, conflicts_with = "id")]
    pub(crate) yes: bool,
    /// Reason for the journal; required with --filter.
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
}

fn rate(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    number.parse().map_err(|_| "expected a number per second, such as 10/s".to_owned())
}

/// A command after which one execution can be followed.
#[derive(Debug, Args)]
pub(crate) struct FollowedAction {
    #[command(flatten)]
    pub(crate) acts: ActionArgs,
    #[command(flatten)]
    pub(crate) following: FollowArgs,
}

/// Batch commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Batch {
    /// List batches, oldest first.
    List(WatchArgs),
    /// Show a batch with the result per execution.
    Show {
        /// Batch id.
        id: String,
    },
    /// Stop a batch; the remaining executions stay unchanged.
    Stop {
        /// Batch id.
        id: String,
    },
}

pub(crate) const BATCHES: Kind = Kind {
    path: "/v1/batches",
    columns: &[
        ("id", "/id"),
        ("verb", "/verb"),
        ("state", "/state"),
        ("total", "/total"),
        ("done", "/done"),
        ("refused", "/refused"),
        ("skipped", "/skipped"),
        ("by", "/by"),
        ("filter", "/filter"),
    ],
};
const ITEMS: &[Column] = &[("id", "/execution"), ("result", "/result"), ("reason", "/why"), ("at", "/at")];
const FIRST: &[Column] = &[
    ("id", "/id"),
    ("workflow", "/workflow"),
    ("tenant", "/tenant"),
    ("subject", "/subject"),
    ("state", "/state"),
    ("phase", "/phase"),
    ("rejects", "/refuses"),
];

pub(crate) async fn run(common: &Common, command: Batch) -> Result<Exit, Failure> {
    match command {
        Batch::List(watching) => resources::search(common, &BATCHES, None, &[], &watching).await,
        Batch::Show { id } => {
            let client = Client::of(common)?;
            let batch = client.get(&format!("/v1/batches/{}", escape(&id))).await?.value()?;
            ended(common, &client, &batch, true).await
        }
        Batch::Stop { id } => {
            let client = Client::of(common)?;
            let path = format!("/v1/batches/{}:stop", escape(&id));
            let batch = client.post(&path, Body::json(&json!({}))).await?.value()?;
            // A successful stop ends with 0, also if executions rejected the command earlier.
            ended(common, &client, &batch, false).await.map(|_| Exit::Done)
        }
    }
}

/// Sends `verb` to one execution and follows it if requested, or to all that match the filter.
pub(crate) async fn order(
    common: &Common,
    verb: &str,
    acts: ActionArgs,
    following: &FollowArgs,
) -> Result<Exit, Failure> {
    let Some(filter) = &acts.filter else {
        let act = ExecutionAction { id: acts.id.unwrap_or_default(), reason: acts.reason };
        return act::order(common, verb, act, acts.dry_run, following).await;
    };
    if following.wait {
        let why = "--wait: is for one execution; with --filter the command waits until the batch ends, and `tenure executions list` shows the states";
        return Err(Failure::new(Exit::Usage, why));
    }
    many(common, verb, filter, &acts).await
}

/// Sends `verb` to all executions that match the filter.
async fn many(common: &Common, verb: &str, filter: &str, acts: &ActionArgs) -> Result<Exit, Failure> {
    if !acts.dry_run.is_wanted() && acts.reason.trim().is_empty() {
        return Err(Failure::new(Exit::Usage, "--reason: give a reason for the journal of each execution"));
    }
    let client = Client::of(common)?;
    let ask = |digest: Option<&str>| {
        let mut ask = json!({ "verb": verb, "filter": filter, "reason": acts.reason });
        if let Some(fields) = ask.as_object_mut() {
            fields.extend(acts.cap.map(|cap| ("cap".into(), cap.into())));
            fields.extend(acts.rate.map(|rate| ("rate".into(), rate.into())));
            fields.extend(digest.map(|digest| ("digest".into(), digest.into())));
        }
        ask
    };
    let seen = client.foresee_by_field("/v1/executions:batch", ask(None)).await?.value()?;
    if acts.dry_run.is_wanted() {
        match common.output {
            format @ (Format::Json | Format::Yaml) => output::one(format, &seen)?,
            Format::Table => {
                output::list(Format::Table, first(&seen), FIRST)?;
                output::note(&summary(verb, &seen));
            }
        }
        let takes = number(&seen, "count") > number(&seen, "refusing");
        return Ok(acts.dry_run.exit(takes));
    }
    if !acts.yes && !meant(verb, &seen)? {
        return Err(Failure::new(Exit::Failed, "nothing was changed"));
    }
    let digest = seen.get("digest").and_then(Value::as_str).unwrap_or_default();
    let batch = client.post("/v1/executions:batch", Body::json(&ask(Some(digest)))).await?.value()?;
    let batch = follow(&client, batch).await?;
    ended(common, &client, &batch, false).await
}

fn first(seen: &Value) -> Vec<Value> {
    seen.get("first").and_then(Value::as_array).cloned().unwrap_or_default()
}

fn number(of: &Value, name: &str) -> u64 {
    of.get(name).and_then(Value::as_u64).unwrap_or(0)
}

fn summary(verb: &str, seen: &Value) -> String {
    let (count, refusing) = (number(seen, "count"), number(seen, "refusing"));
    let more = count.saturating_sub(first(seen).len() as u64);
    let more = if more > 0 { format!(", {more} of them not shown") } else { String::new() };
    let refusing = if refusing > 0 {
        format!("; {refusing} would reject it in their current state")
    } else {
        String::new()
    };
    format!("{count} executions to {verb}{more}{refusing}")
}

/// Asks for confirmation at the terminal.
fn meant(verb: &str, seen: &Value) -> Result<bool, Failure> {
    if !io::stdin().is_terminal() {
        let message = format!(
            "{}; confirmation needs a terminal: check with --dry-run, then add --yes",
            summary(verb, seen)
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    output::list(Format::Table, first(seen), FIRST)?;
    output::note(&format!("{}. Type yes to continue:", summary(verb, seen)));
    let mut line = String::new();
    io::stdin().read_line(&mut line).map_err(Failure::other)?;
    Ok(line.trim() == "yes")
}

/// Follows a batch to its end and shows its progress.
async fn follow(client: &Client, mut batch: Value) -> Result<Value, Failure> {
    let id = batch.get("id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let path = format!("/v1/batches/{}", escape(&id));
    output::note(&format!(
        "batch {id}; it continues if you interrupt this command, and `tenure batch show {id}` shows its progress"
    ));
    let mut told = 0;
    while batch.get("state").and_then(Value::as_str) == Some("running") {
        tokio::time::sleep(Duration::from_millis(200)).await;
        batch = client.get(&path).await?.value()?;
        let next = number(&batch, "next");
        if next >= told + 500 {
            output::note(&format!("{next} of {}", number(&batch, "total")));
            told = next;
        }
    }
    Ok(batch)
}

/// Shows a batch with all items if `all`, otherwise with rejected and skipped ones.
async fn ended(common: &Common, client: &Client, batch: &Value, all: bool) -> Result<Exit, Failure> {
    let id = batch.get("id").and_then(Value::as_str).unwrap_or_default();
    let mut items = client.all(&format!("/v1/batches/{}/items", escape(id)), "").await?;
    if !all {
        items
            .retain(|item| matches!(item.get("result").and_then(Value::as_str), Some("refused" | "skipped")));
    }
    match common.output {
        format @ (Format::Json | Format::Yaml) => {
            let mut whole = batch.clone();
            if let Some(fields) = whole.as_object_mut() {
                fields.insert("items".into(), Value::Array(items));
            }
            output::one(format, &whole)?;
        }
        Format::Table => {
            if !items.is_empty() {
                output::list(Format::Table, items, ITEMS)?;
            }
            let told = |name: &str| number(batch, name);
            let state = batch.get("state").and_then(Value::as_str).unwrap_or_default();
            let (total, done, refused, skipped) =
                (told("total"), told("done"), told("refused"), told("skipped"));
            output::note(&format!(
                "batch {id} {state}: {done} of {total} done, {refused} refused, {skipped} skipped"
            ));
        }
    }
    Ok(if number(batch, "refused") > 0 { Exit::Failed } else { Exit::Done })
}
