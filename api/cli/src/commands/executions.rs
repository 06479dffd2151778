//! `tenure executions`.

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

/// What is done about executions.
#[derive(Debug, Subcommand)]
pub(crate) enum Executions {
    /// List them all.
    List {
        /// Only those that match, like `phase = parked and age > 2h`; docs/search.md has the words.
        #[arg(long, value_name = "FILTER")]
        filter: Option<String>,
        /// Only those whose field is as said, like `open=true` or `state=Waitlisted`; may be repeated.
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
    /// Show one in full.
    Show(ExecutionArg),
    /// Show the history of one.
    Journal(ExecutionArg),
    /// Show the picture of one, with the current state lit.
    Diagram(ExecutionArg),
    /// Wait until one has finished, or waits for people (exit 10).
    Wait {
        /// Its id; the first digits do if no other begins with them.
        id: String,
        /// How long to wait at most, like `30m`.
        #[arg(long, value_name = "SPAN", value_parser = wait::span)]
        timeout: Option<Duration>,
    },
    /// Follow one until it has finished, also while people decide.
    Watch {
        /// Its id; the first digits do if no other begins with them.
        id: String,
        /// How long to watch at most, like `30m`.
        #[arg(long, value_name = "SPAN", value_parser = wait::span)]
        timeout: Option<Duration>,
    },
    /// Turn one, or many, back and undo what was done.
    Cancel(FollowedAction),
    /// Stop one, or many, between two steps.
    Pause(ActionArgs),
    /// Let a paused one, or many, go on.
    Resume(FollowedAction),
    /// Try now: what is parked, or waits for its next attempt.
    Retry(FollowedAction),
    /// Tell one that something it waits for has happened; it looks for itself.
    Signal {
        /// Its id; the first digits do if no other begins with them.
        id: String,
        /// What has happened, such as `export.confirmed`.
        signal: String,
        #[command(flatten)]
        following: FollowArgs,
    },
    /// Close one by force; says what it leaves behind. Needs --reason.
    Terminate(ExecutionAction),
}

/// What names one execution.
#[derive(Debug, Args)]
pub(crate) struct ExecutionArg {
    /// Its id; the first digits do if no other begins with them.
    pub(crate) id: String,
}

/// What is stuck.
#[derive(Debug, Args)]
pub(crate) struct Stuck {
    /// Only those that match, like `tenant = acme`; docs/search.md has the words.
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

/// Lists what somebody has to look at.
pub(crate) async fn stuck(common: &Common, own: &Stuck) -> Result<Exit, Failure> {
    resources::search(common, &STUCK, own.filter.as_deref(), &[], &own.watching).await
}

/// Shows an execution; below it, for people, where it stands, why, and what to type.
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
    // A server that restarts later is waited for; one that never answered may not be there at all.
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
