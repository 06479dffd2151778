//! `tenure executions`.

use crate::cli::{
    client::{Body, Client, escape},
    command::{Common, Executions, Format},
    commands::batch,
    execution::{
        start::Following,
        wait::{self, Until},
    },
    output,
    resources::{self, EXECUTIONS, STUCK, watch_list::Watching},
};
use crate::exit::{Exit, Failure};
use clap::Args;
use serde_json::{Value, json};
use std::time::Duration;

/// What names one execution.
#[derive(Debug, Args)]
pub(crate) struct One {
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
    watching: Watching,
}

/// What is done with one execution, and why.
#[derive(Debug, Args)]
pub(crate) struct Act {
    /// Its id; the first digits do if no other begins with them.
    pub(crate) id: String,
    /// Why, for the journal.
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
}

pub(in crate::cli) async fn run(common: &Common, command: Executions) -> Result<Exit, Failure> {
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
        Executions::Pause(acts) => batch::order(common, "pause", acts, &Following::NOT).await,
        Executions::Resume(own) => batch::order(common, "resume", own.acts, &own.following).await,
        Executions::Retry(own) => batch::order(common, "retry", own.acts, &own.following).await,
        Executions::Signal { id, signal, following } => tell(common, &id, &signal, &following).await,
        Executions::Terminate(act) => order(common, "terminate", act, &Following::NOT).await,
    }
}

/// Lists what somebody has to look at.
pub(in crate::cli) async fn stuck(common: &Common, own: &Stuck) -> Result<Exit, Failure> {
    resources::search(common, &STUCK, own.filter.as_deref(), &[], &own.watching).await
}

/// Shows an execution; below it, for people, where it stands, why, and what to type.
pub(in crate::cli) async fn show(common: &Common, id: &str) -> Result<Exit, Failure> {
    let item = resources::read(&Client::of(common)?, &EXECUTIONS, id).await?;
    output::one(common.output, &item)?;
    if common.output == Format::Table {
        output::note(&wait::progress(&item));
        wait::why(&item).iter().for_each(|why| output::note(why));
        let hint = wait::rest(&item).and_then(|exit| wait::hint(&item, exit));
        hint.iter().for_each(|hint| output::note(hint));
    }
    Ok(Exit::Done)
}

pub(in crate::cli) async fn journal(common: &Common, id: &str) -> Result<Exit, Failure> {
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
    at_rest(common, &item, exit)
}

/// Shows an execution that has come to rest, and what to do about it.
pub(in crate::cli) fn at_rest(common: &Common, item: &Value, exit: Exit) -> Result<Exit, Failure> {
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, item)?,
        Format::Table => {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            output::say(&format!("{id} {}\n", wait::progress(item)))?;
        }
    }
    if exit == Exit::Refused {
        wait::refusals(item).iter().for_each(|why| output::note(&format!("refused by {why}")));
    }
    if let Some(hint) = wait::hint(item, exit) {
        output::note(&hint);
    }
    Ok(exit)
}

async fn tell(common: &Common, id: &str, signal: &str, following: &Following) -> Result<Exit, Failure> {
    let path = format!("/v1/executions/{}:signal", escape(id));
    let body = Body::json(&json!({ "signal": signal }));
    let client = Client::of(common)?;
    let item = client.post(&path, body).await?.value()?;
    following.from(common, &client, &item).await
}

/// Shows where an execution stands.
pub(in crate::cli) fn stands(common: &Common, item: &Value) -> Result<Exit, Failure> {
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, item)?,
        Format::Table => {
            let id = item.get("id").and_then(Value::as_str).unwrap_or_default();
            output::say(&format!("{id} {}\n", wait::progress(item)))?;
        }
    }
    Ok(Exit::Done)
}

pub(in crate::cli) async fn order(
    common: &Common,
    verb: &str,
    act: Act,
    following: &Following,
) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let path = format!("/v1/executions/{}:{verb}", escape(&act.id));
    let item = client.post(&path, Body::json(&json!({ "reason": act.reason }))).await?.value()?;
    let exit = following.from(common, &client, &item).await?;
    if common.output == Format::Table {
        left_behind(&item)?;
    }
    Ok(exit)
}

/// The leak report of an execution that was closed by force.
fn left_behind(item: &Value) -> Result<(), Failure> {
    let left = item.get("left_behind").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if left.is_empty() {
        return Ok(());
    }
    output::note("left behind, to be removed by hand, last first:");
    let columns = [("state", "/state"), ("action", "/action"), ("undo", "/undo"), ("fate", "/fate")];
    output::list(Format::Table, left.iter().rev().cloned().collect(), &columns)
}
