//! `tenure nodes`: lists nodes, and retires or moves free ones.

use crate::{
    client::{Body, Client, escape},
    common::{Common, Format},
    dry_run::DryRun,
    output,
    resources::{self, kinds::NODES, watch_list::WatchArgs},
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::{Value, json};

/// Node commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Nodes {
    /// List nodes.
    List {
        /// Filter by a field, such as `state=free` (repeatable).
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
    /// Show a node.
    Show {
        /// Serial number.
        id: String,
    },
    /// Remove a free node from the fleet permanently.
    Retire {
        /// Serial number.
        id: String,
        /// Reason for the audit.
        #[arg(long)]
        reason: String,
        #[command(flatten)]
        dry_run: DryRun,
    },
    /// Move a free node to another cluster.
    Move {
        /// Serial number.
        id: String,
        /// New cluster.
        #[arg(long)]
        cluster: String,
        /// Reason for the audit.
        #[arg(long, default_value = "")]
        reason: String,
        #[command(flatten)]
        dry_run: DryRun,
    },
}

pub(crate) async fn run(common: &Common, command: Nodes) -> Result<Exit, Failure> {
    match command {
        Nodes::List { filters, watching } => {
            resources::search(common, &NODES, None, &filters, &watching).await
        }
        Nodes::Show { id } => resources::show(common, &NODES, &id).await,
        Nodes::Retire { id, reason, dry_run } => {
            change(common, &id, "retire", &json!({ "reason": reason }), dry_run).await
        }
        Nodes::Move { id, cluster, reason, dry_run } => {
            let body = json!({ "cluster": cluster, "reason": reason });
            change(common, &id, "move", &body, dry_run).await
        }
    }
}

async fn change(
    common: &Common,
    id: &str,
    verb: &str,
    body: &Value,
    dry_run: DryRun,
) -> Result<Exit, Failure> {
    let (client, path) = (Client::of(common)?, format!("/v1/nodes/{}:{verb}", escape(id)));
    if !dry_run.is_wanted() {
        let changed = client.post(&path, Body::json(body)).await?.value()?;
        output::one(common.output, &changed)?;
        return Ok(Exit::Done);
    }
    let before = resources::read(&client, &NODES, id).await?;
    let after = client.foresee(&path, Body::json(body)).await?.value()?;
    output::one(common.output, &after)?;
    if common.output == Format::Table {
        output::note("nothing was changed");
    }
    Ok(dry_run.exit(before != after))
}
