//! `tenure executions`: lists, shows and controls executions.

use crate::{
    client::{Body, Client, escape},
    commands::batch::{self, ActionArgs, FollowedAction},
    common::{Common, Format},
    dry_run::DryRun,
    execution::{
        act::{self, ExecutionAction},
        start::FollowArgs,
        status,
        wait::{self, Until},
    },
    output,
    resources::{
        self,
        kinds::{EXECUTIONS, STUCK},
        watch_list::WatchArgs,
    },
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};
use std::time::Duration;

/// Execution commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Executions {
    /// List executions.
    List {
        /// Filter, such as `phase = parked and age > 2h` (see docs/search.md).
        #[arg(long, value_name = "FILTER")]
        filter: Option<String>,
        /// Filter by a field, such as `open=true` or `state=Waitlisted` (repeatable).
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
    /// Show an execution.
    Show(ExecutionArg),
    /// Show the journal of an execution.
    Journal(ExecutionArg),
    /// Show the state diagram of an execution.
    Diagram(ExecutionArg),
    /// Wait until an execution ends or needs approval.
    Wait {
        /// Execution id, or a unique prefix.
        id: String,
        /// Longest wait, such as `30m`.
        #[arg(long, value_name = "SPAN", value_parser = wait::span)]
        timeout: Option<Duration>,
    },
    /// Follow an execution until it ends.
    Watch {
        /// Execution id, or a unique prefix.
        id: String,
        /// Longest wait, such as `30m`.
        #[arg(long, value_name = "SPAN", value_parser = wait::span)]
        timeout: Option<Duration>,
    },
    /// Cancel executions and undo their steps.
    Cancel(FollowedAction),
    /// Pause executions between two steps.
    Pause(ActionArgs),
    /// Resume paused executions.
    Resume(FollowedAction),
    /// Retry parked or waiting executions now.
    Retry(FollowedAction),
    /// Send a signal to an execution.
    Signal {
        /// Execution id, or a unique prefix.
        id: String,
        /// Signal, such as `export.confirmed`.
        signal: String,
        #[command(flatten)]
        following: FollowArgs,
    },
    /// Close an execution without undo; --reason is required.
    Terminate(ExecutionAction),
}

/// The id of an execution.
#[derive(Debug, Args)]
pub(crate) struct ExecutionArg {
    /// Execution id, or a unique prefix.
    pub(crate) id: String,
}

/// Options of `stuck`.
#[derive(Debug, Args)]
pub(crate) struct Stuck {
    /// Filter, such as `tenant = acme` (see docs/search.md).
    #[arg(long, value_name = "FILTER")]
    filter: Option<String>,
    #[command(flatten)]
    watching: WatchArgs,
}

pub(crate) async fn run(common: &Common, command: Executions) -> Result<Exit, Failure> {
    match command {
        Executions::List { filter, filters, watching } => {
            resources::search(common, &EXECUTIONS, filter.as_deref(), &filters, &watching).await
        }
        Executions::Show(one) => show(common, &one.id).await,
        Executions::Journal(one) => journal(common, &one.id).await,
        Executions::Diagram(one) => diagram(common, &one.id).await,
        Executions::Wait { id, timeout } => wait(common, &id, Until::Rest, timeout).await,
        Executions::Watch { id, timeout } => wait(common, &id, Until::End, timeout).await,
        Executions::Cancel(own) => batch::order(common, "cancel", own.acts, &own.following).await,
        Executions::Pause(acts) => batch::order(common, "pause", acts, &FollowArgs::NOT).await,
        Executions::Resume(own) => batch::order(common, "resume", own.acts, &own.following).await,
        Executions::Retry(own) => batch::order(common, "retry", own.acts, &own.following).await,
        Executions::Signal { id, signal, following } => tell(common, &id, &signal, &following).await,
        Executions::Terminate(act) => {
            act::order(common, "terminate", act, DryRun::default(), &FollowArgs::NOT).await
        }
    }
}

/// Lists executions that need an operator.
pub(crate) async fn stuck(common: &Common, own: &Stuck) -> Result<Exit, Failure> {
    resources::search(common, &STUCK, own.filter.as_deref(), &[], &own.watching).await
}

/// Shows an execution. For text output, adds the status, the errors and a hint.
pub(crate) async fn show(common: &Common, id: &str) -> Result<Exit, Failure> {
    let item = resources::read(&Client::of(common)?, &EXECUTIONS, id).await?;
    output::one(common.output, &item)?;
    if common.output == Format::Table {
        output::note(&status::progress(&item));
        status::why(&item).iter().for_each(|why| output::note(why));
        let hint = status::rest(&item).and_then(|exit| status::hint(&item, exit));
        hint.iter().for_each(|hint| output::note(hint));
    }
    Ok(Exit::Done)
}

pub(crate) async fn journal(common: &Common, id: &str) -> Result<Exit, Failure> {
    let path = format!("/v1/executions/{}/journal", escape(id));
    let mut page = Client::of(common)?.get(&path).await?.value()?;
    let items = match page.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    };
    let columns = [
        ("commit", "/sequence"),
        ("at", "/at"),
        ("actor", "/actor"),
        ("event", "/event"),
        ("from", "/from"),
        ("to", "/to"),
        ("by", "/detail/by"),
    ];
    output::list(common.output, items, &columns)?;
    Ok(Exit::Done)
}

async fn diagram(common: &Common, id: &str) -> Result<Exit, Failure> {
    let format = if common.output == Format::Json { "json" } else { "mermaid" };
    let path = format!("/v1/executions/{}/diagram?format={format}", escape(id));
    let text = Client::of(common)?.get(&path).await?.text;
    output::say(&format!("{}\n", text.trim_end()))?;
    Ok(Exit::Done)
}

async fn wait(common: &Common, id: &str, until: Until, timeout: Option<Duration>) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    // The wait survives a restart of the server. A server that never answered may not exist, so the first request must succeed.
    client.get(&format!("/v1/executions/{}", escape(id))).await?;
    let (item, exit) = wait::wait(&client, &escape(id), until, timeout).await?;
    status::print_at_rest(common, &item, exit)
}

async fn tell(common: &Common, id: &str, signal: &str, following: &FollowArgs) -> Result<Exit, Failure> {
    let path = format!("/v1/executions/{}:signal", escape(id));
    let body = Body::json(&json!({ "signal": signal }));
    let client = Client::of(common)?;
    let item = client.post(&path, body).await?.value()?;
    following.from(common, &client, &item).await
}
