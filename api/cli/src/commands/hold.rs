//! `tenure hold`: legal holds, which prevent the destruction of data.

use crate::{
    client::{Body, Client, escape},
    common::Common,
    output,
};
use clap::{Args, Subcommand};
use program::exit::{Exit, Failure};
use serde_json::json;

/// Hold commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Hold {
    /// Prevent destruction for a tenant, workspace or asset.
    Place(Place),
    /// Release a hold that another person placed.
    Release {
        /// Hold id, such as `acme/case-17`.
        id: String,
        /// Reason for the record.
        #[arg(long)]
        reason: String,
    },
}

/// The hold to place.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Hold id: tenant and name, such as `acme/case-17`.
    id: String,
    /// Kind.
    #[arg(long, value_parser = ["legal", "incident", "billing"])]
    kind: String,
    /// Only this workspace.
    #[arg(long)]
    workspace: Option<String>,
    /// Only this asset.
    #[arg(long)]
    asset: Option<String>,
    /// Reason for the record.
    #[arg(long)]
    reason: String,
    /// Time of the next review, such as `2027-01-31T00:00:00.000Z`.
    #[arg(long, value_name = "TIME")]
    review_at: Option<String>,
}

pub(crate) async fn run(common: &Common, command: Hold) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    let item = match command {
        Hold::Place(place) => {
            let (tenant, name) = parts(&place.id)?;
            let body = json!({
                "tenant": tenant, "id": name, "kind": place.kind, "workspace": place.workspace,
                "asset": place.asset, "reason": place.reason, "review_at": place.review_at,
            });
            client.post("/v1/holds", Body::json(&body)).await?.value()?
        }
        Hold::Release { id, reason } => {
            let (tenant, name) = parts(&id)?;
            let path = format!("/v1/holds/{}/{}:release", escape(tenant), escape(name));
            client.post(&path, Body::json(&json!({ "reason": reason }))).await?.value()?
        }
    };
    output::one(common.output, &item)?;
    Ok(Exit::Done)
}

fn parts(id: &str) -> Result<(&str, &str), Failure> {
    let named = id.split_once('/').filter(|(_, name)| !name.contains('/'));
    named.ok_or_else(|| {
        Failure::new(Exit::Usage, format!("{id:?} is not the id of a hold; write TENANT/NAME"))
    })
}
