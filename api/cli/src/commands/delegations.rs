//! `tenure delegations`: who decides for whom, and until when.

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

/// What is done about delegations.
#[derive(Debug, Subcommand)]
pub(crate) enum Delegations {
    /// List them all, also those that are over.
    List {
        /// Only those whose field is as said: `from`, `to`, or `state` (`planned`, `in_force`, `over`); may be repeated.
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
    /// Let somebody vote for you; they vote as themselves, and it is on record for whom.
    Add(Add),
    /// Take one back: it counts no more from now on, and stays on record.
    Remove {
        /// Its id.
        id: String,
    },
}

/// A delegation to be made.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Who is to vote.
    to: String,
    /// Until when, like `2026-12-24T00:00:00Z`.
    #[arg(long, value_name = "TIME")]
    until: String,
    /// Why, for the record.
    #[arg(long)]
    reason: String,
    /// From when on [default: now].
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// A role, or `group:NAME`, of yours that they may use; may be repeated [default: all].
    #[arg(long = "role", value_name = "ROLE")]
    roles: Vec<String>,
    /// For whom, as admin [default: you].
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

/// For people: no roles named are all of them.
fn readable(common: &Common, mut delegation: Value) -> Value {
    if let (Format::Table, Some(Value::Array(roles))) = (common.output, delegation.get_mut("roles"))
        && roles.is_empty()
    {
        roles.push("all that are held at a vote".into());
    }
    delegation
}
