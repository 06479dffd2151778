//! A command to one execution: cancel, pause, resume, retry, terminate.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    dry_run::DryRun,
    execution::start::FollowArgs,
    output,
};
use clap::Args;
use program::exit::{Exit, Failure};
use serde_json::{Value, json};

/// What is done with one execution, and why.
#[derive(Debug, Args)]
pub(crate) struct ExecutionAction {
    /// Its id; the first digits do if no other begins with them.
    pub(crate) id: String,
    /// Why, for the journal.
    #[arg(long, default_value = "")]
    pub(crate) reason: String,
}

pub(crate) async fn order(
    common: &Common,
    verb: &str,
    act: ExecutionAction,
    dry_run: DryRun,
    following: &FollowArgs,
) -> Result<Exit, Failure> {
    let path = format!("/v1/executions/{}:{verb}", escape(&act.id));
    order_at(common, &path, &act.reason, dry_run, following).await
}

/// The same, at an address of its own.
pub(crate) async fn order_at(
    common: &Common,
    path: &str,
    reason: &str,
    dry_run: DryRun,
    following: &FollowArgs,
) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let body = Body::json(&json!({ "reason": reason }));
    if dry_run.is_wanted() {
        let foreseen = client.foresee(path, body).await?.value()?;
        output::one(common.output, &foreseen)?;
        if common.output == Format::Table {
            output::note("nothing was changed");
        }
        // Whatever it leads to, the order itself is a line of the history.
        return Ok(dry_run.exit(true));
    }
    let item = client.post(path, body).await?.value()?;
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
    output::note("left behind, last first; `tenure leftovers release ID --reason WHY` takes it back:");
    let columns = [("state", "/state"), ("action", "/action"), ("undo", "/undo"), ("fate", "/fate")];
    output::list(Format::Table, left.iter().rev().cloned().collect(), &columns)
}
