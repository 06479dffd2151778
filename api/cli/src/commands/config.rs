//! `tenure config`: checks the configuration without a server.

use crate::{
    commands::workflow,
    common::{Common, Format},
    output, settings,
};
use api::auth::policy::PolicyStore;
use backends::targets::Targets;
use clap::Subcommand;
use program::exit::{Exit, Failure};
use serde_json::json;
use std::path::Path;

/// Configuration commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Check the configuration and print the settings.
    Check,
}

pub(crate) fn run(common: &Common, command: &Config) -> Result<Exit, Failure> {
    match command {
        Config::Check => check(common),
    }
}

fn check(common: &Common) -> Result<Exit, Failure> {
    let config = settings::settings(common)?;
    let known: Vec<String> = workflow::diagrams()?.into_iter().map(|drawn| drawn.workflow).collect();
    let checked = config.retention.check(&known);
    checked.map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    if !config.targets.is_empty() {
        let read = Targets::read(Path::new(&config.targets));
        read.map_err(|why| Failure::new(Exit::Usage, format!("configuration: targets: {why}")))?;
    }
    PolicyStore::open(&config.access.policies)
        .map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &json!(config))?,
        Format::Table => output::say(&toml::to_string(&config).map_err(Failure::other)?)?,
    }
    Ok(Exit::Done)
}
