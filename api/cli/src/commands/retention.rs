//! `tenure retention`: removal of finished executions.

use crate::{
    client::{Body, Client},
    common::Common,
    output,
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::json;

/// Retention commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Retention {
    /// Preview which finished executions would be removed.
    Show,
    /// Remove expired executions now.
    Run,
}

pub(crate) async fn run(common: &Common, command: Retention) -> Result<Exit, Failure> {
    let client = Client::of(common)?;
    match command {
        Retention::Show => {
            let columns = [
                ("id", "/id"),
                ("workflow", "/workflow"),
                ("tenant", "/tenant"),
                ("ended", "/ended_at"),
                ("outcome", "/outcome"),
                ("kept because", "/stays"),
            ];
            output::list(common.output, client.all("/v1/retention", "").await?, &columns)?;
        }
        Retention::Run => {
            let done = client.post("/v1/retention:run", Body::json(&json!({}))).await?.value()?;
            output::one(common.output, &done)?;
        }
    }
    Ok(Exit::Done)
}
