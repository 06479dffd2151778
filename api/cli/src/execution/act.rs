//! Commands to one execution: cancel, pause, resume, retry, terminate.

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

/// The execution and the reason.
#[derive(Debug, Args)]
pub(crate) struct ExecutionAction {
    /// Execution id, or a unique prefix.
    pub(crate) id: String,
    /// Reason for the journal.
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

/// Sends the command to the address `path`.
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
        // The command is always recorded in the journal, so something changes.
        return Ok(dry_run.exit(true));
    }
    let item = client.post(path, body).await?.value()?;
    let exit = following.from(common, &client, &item).await?;
    if common.output == Format::Table {
        left_behind(&item)?;
    }
    Ok(exit)
}

/// Shows the steps that a terminated execution did not undo.
fn left_behind(item: &Value) -> Result<(), Failure> {
    let left = item.get("left_behind").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if left.is_empty() {
        return Ok(());
    }
    output::note("left behind, last first; to undo it, run `tenure leftovers release ID --reason WHY`:");
    let columns = [("state", "/state"), ("action", "/action"), ("undo", "/undo"), ("fate", "/fate")];
    output::list(Format::Table, left.iter().rev().cloned().collect(), &columns)
}
