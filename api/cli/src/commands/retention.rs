//! `tenure retention`: which finished executions are kept no longer.

use crate::{
    client::{Body, Client},
    common::Common,
    output,
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::json;

/// What is done about finished executions.
#[derive(Debug, Subcommand)]
pub(crate) enum Retention {
    /// List those that would be forgotten now, and those that stay although they are old enough; changes nothing.
    Show,
    /// Forget those that are kept no longer, now.
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
                ("stays", "/stays"),
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
