//! `tenure reservation`: GPUs that a workspace is promised.

use crate::{
    client::{Body, Client, escape},
    common::Common,
    output,
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::json;

/// What is done about reservations.
#[derive(Debug, Subcommand)]
pub(crate) enum Reservation {
    /// Promise GPUs to a workspace, within its quota.
    Add(Add),
    /// Take a promise back.
    Remove {
        /// Its id, such as `acme/serving/peak`.
        id: String,
    },
}

/// A reservation to be made.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Its id: tenant, workspace and a name, such as `acme/serving/peak`.
    id: String,
    /// The kind of GPU, such as `H100` or `H100/1g.10gb`.
    #[arg(long)]
    kind: String,
    /// How many.
    #[arg(long)]
    count: u64,
    /// From when, like `2026-03-01T00:00:00Z` [default: now].
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Until when [default: as long as the quota lasts].
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// From demand to usable GPUs, like `15m` [default: the policy's].
    #[arg(long, value_name = "SPAN")]
    deadline: Option<String>,
    /// How long a borrower has between notice and eviction [default: the policy's].
    #[arg(long, value_name = "SPAN")]
    grace: Option<String>,
}

pub(crate) async fn run(common: &Common, command: Reservation) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    match command {
        Reservation::Add(add) => {
            let (tenant, workspace, name) = parts(&add.id)?;
            let body = json!({
                "tenant": tenant, "workspace": workspace, "name": name,
                "kind": add.kind, "count": add.count, "from": add.from, "to": add.to,
                "reclaim_deadline": add.deadline, "grace": add.grace,
            });
            let made = client.post("/v1/reservations", Body::json(&body)).await?.value()?;
            output::one(common.output, &made)?;
        }
        Reservation::Remove { id } => {
            let (tenant, workspace, name) = parts(&id)?;
            let path = format!("/v1/reservations/{}/{}/{}", escape(tenant), escape(workspace), escape(name));
            client.delete(&path).await?;
            output::done(common.output, "removed", &id)?;
        }
    }
    Ok(Exit::Done)
}

fn parts(id: &str) -> Result<(&str, &str, &str), Failure> {
    let mut parts = id.split('/');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(tenant), Some(workspace), Some(name), None) => Ok((tenant, workspace, name)),
        _ => {
            let why = format!("{id:?} names no reservation: write TENANT/WORKSPACE/NAME");
            Err(Failure::new(Exit::Usage, why))
        }
    }
}
