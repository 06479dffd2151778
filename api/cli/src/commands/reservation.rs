//! `tenure reservation`: GPUs reserved for a workspace.

use crate::{
    client::{Body, Client, escape},
    common::Common,
    output,
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::json;

/// Reservation commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Reservation {
    /// Reserve GPUs for a workspace within its quota.
    Add(Add),
    /// Remove a reservation.
    Remove {
        /// Reservation id, such as `acme/serving/peak`.
        id: String,
    },
}

/// The reservation to create.
#[derive(Debug, Args)]
pub(crate) struct Add {
    /// Reservation id: tenant, workspace and name, such as `acme/serving/peak`.
    id: String,
    /// GPU kind, such as `H100` or `H100/1g.10gb`.
    #[arg(long)]
    kind: String,
    /// Number of GPUs.
    #[arg(long)]
    count: u64,
    /// Start, such as `2026-03-01T00:00:00Z` [default: now].
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// End [default: the end of the quota].
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Longest time from demand to usable GPUs, such as `15m` [default: set by policy].
    #[arg(long, value_name = "SPAN")]
    deadline: Option<String>,
    /// Time of a borrower between notice and eviction [default: set by policy].
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
            let why = format!("{id:?} is not the id of a reservation; write TENANT/WORKSPACE/NAME");
            Err(Failure::new(Exit::Usage, why))
        }
    }
}
