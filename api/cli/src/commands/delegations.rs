//! `tenure delegations`: users who vote for other users.

use crate::{
    client::{self, Body, Client, escape},
    common::{Common, Format},
    output,
    resources::{
        kinds::DELEGATIONS,
        watch_list::{self, WatchArgs},
    },
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::{Value, json};

/// Delegation commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Delegations {
    /// List delegations, including ended ones.
    List {
        /// Filter by `from`, `to` or `state` (`planned`, `in_force`, `over`); repeatable.
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
    /// Let another user vote for you.
    Add(Add),
    /// End a delegation now; it stays on record.
    Remove {
        /// Delegation id.
        id: String,
    },
}

/// The delegation to create.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// User who may vote for you.
    to: String,
    /// End, such as `2026-12-24T00:00:00Z`.
    #[arg(long, value_name = "TIME")]
    until: String,
    /// Reason for the record.
    #[arg(long)]
    reason: String,
    /// Start [default: now].
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Delegated role, or `group:NAME` (repeatable) [default: all].
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// User who is represented, as admin [default: you].
    #[arg(long, value_name = "NAME")]
    from: Option<String>,
}

pub(crate) async fn run(common: &Common, command: Delegations) -> Result<Exit, Failure> {
    match command {
        Delegations::List { filters, watching } => {
            let (client, wanted) = (Client::of(common)?, client::filters(&filters)?);
            let all = async || {
                let items = client.all(DELEGATIONS.path, &wanted).await?;
                Ok(items.into_iter().map(|item| readable(common, item)).collect())
            };
            return watch_list::show(common, &watching, DELEGATIONS.columns, all).await;
        }
        Delegations::Add(add) => {
            let body = json!({
                "from": add.from, "to": add.to, "roles": add.roles, "since": add.since, "until": add.until,
                "reason": add.reason,
            });
            let made = Client::of(common)?.post("/v1/delegations", Body::json(&body)).await?.value()?;
            output::one(common.output, &readable(common, made))?;
        }
        Delegations::Remove { id } => {
            Client::of(common)?.delete(&format!("/v1/delegations/{}", escape(&id))).await?;
            match common.output {
                format @ (Format::Json | Format::Yaml) => output::one(format, &json!({ "ended": id }))?,
                Format::Table => output::say(&format!("{id} ended\n"))?,
            }
        }
    }
    Ok(Exit::Done)
}

/// Names all roles in text output, if the delegation lists none.
fn readable(common: &Common, mut delegation: Value) -> Value {
    if let (Format::Table, Some(Value::Array(roles))) = (common.output, delegation.get_mut("roles"))
        && roles.is_empty()
    {
        roles.push("all held at the time of the vote".into());
    }
    delegation
}
