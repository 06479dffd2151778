//! `tenure leftovers`: steps that terminated executions did not undo.

use crate::{
    client::{Client, escape},
    commands::executions::ExecutionArg,
    common::{Common, Format},
    dry_run::DryRun,
    execution::{
        act::{self, ExecutionAction},
        start::FollowArgs,
    },
    output,
    resources::{self, kinds::Kind, watch_list::WatchArgs},
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::Value;

pub(crate) const LEFTOVERS: Kind = Kind {
    path: "/v1/leftovers",
    columns: &[
        ("id", "/id"),
        ("workflow", "/workflow"),
        ("subject", "/subject"),
        ("state", "/state"),
        ("undoable", "/undoable"),
        ("since", "/updated_at"),
    ],
};

/// Leftover commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Leftovers {
    /// List executions with leftovers.
    List(WatchArgs),
    /// Show the leftovers of an execution, last first.
    Show(ExecutionArg),
    /// Undo the leftovers; --reason is required.
    Release {
        #[command(flatten)]
        act: ExecutionAction,
        #[command(flatten)]
        dry_run: DryRun,
        #[command(flatten)]
        following: FollowArgs,
    },
}

pub(crate) async fn run(common: &Common, command: Leftovers) -> Result<Exit, Failure> {
    match command {
        Leftovers::List(watching) => resources::all(common, &LEFTOVERS, &watching).await,
        Leftovers::Show(one) => show(common, &one.id).await,
        Leftovers::Release { act, dry_run, following } => {
            let path = format!("/v1/leftovers/{}:release", escape(&act.id));
            act::order_at(common, &path, &act.reason, dry_run, &following).await
        }
    }
}

async fn show(common: &Common, id: &str) -> Result<Exit, Failure> {
    let path = format!("/v1/leftovers/{}", escape(id));
    let item = Client::of(common)?.get(&path).await?.value()?;
    if common.output != Format::Table {
        output::one(common.output, &item)?;
        return Ok(Exit::Done);
    }
    let left = item.get("left").and_then(Value::as_array).cloned().unwrap_or_default();
    let columns = [("state", "/state"), ("action", "/action"), ("undo", "/undo"), ("fate", "/fate")];
    output::list(Format::Table, left, &columns)?;
    output::note(if item.get("undoable") == Some(&Value::Bool(true)) {
        "to undo all of them, the last first, run `tenure leftovers release ID --reason WHY`"
    } else {
        "past the point of no return: remove these manually, then record it with `tenure leftovers release ID --reason WHY`"
    });
    Ok(Exit::Done)
}
