//! `tenure sweep`: scheduled checks.

use crate::{
    client::{Body, Client, escape},
    common::Common,
    output,
    resources::{self, kinds::SWEEPS, watch_list::WatchArgs},
};
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::{Value, json};

/// Sweep commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Sweep {
    /// Run a sweep now.
    Run {
        /// Sweep name; `tenure schedules list` shows it.
        name: String,
    },
    /// List completed sweeps and their results.
    List {
        /// Filter by a field, such as `sweep=reclaim` (repeatable).
        #[arg(long = "where", value_name = "FIELD=VALUE")]
        filters: Vec<String>,
        #[command(flatten)]
        watching: WatchArgs,
    },
}

pub(crate) async fn run(common: &Common, command: Sweep) -> Result<Exit, Failure> {
    match command {
        Sweep::Run { name } => {
            let path = format!("/v1/sweeps/{}:run", escape(&name));
            let swept = Client::of(common)?.post(&path, Body::json(&json!({}))).await?.value()?;
            output::one(common.output, &swept)?;
            Ok(if swept.get("failed").is_some_and(Value::is_string) { Exit::Failed } else { Exit::Done })
        }
        Sweep::List { filters, watching } => {
            resources::search(common, &SWEEPS, None, &filters, &watching).await
        }
    }
}
