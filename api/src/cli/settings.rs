//! Commands that need no server: configuration, GPUs.

use crate::cli::{
    command::{Common, Format},
    output,
};
use crate::{
    auth::policy::Book,
    config::{Config, unknown_variables},
    exit::{Exit, Failure},
};
use backends::{nvml::GpuFacts, targets::Targets};
use serde_json::json;
use std::path::Path;

/// The settings that the command line, the environment and the file come to.
pub(super) fn settings(common: &Common) -> Result<Config, Failure> {
    let environment = |name: &str| std::env::var(name).ok();
    let mut config = Config::load(common.config.as_deref(), environment)
        .map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    unknown_variables(names).iter().for_each(|strange| output::note(&format!("warning: {strange}")));
    if let Some(data) = &common.data {
        config.data.clone_from(data);
    }
    Ok(config)
}

pub(super) fn config_check(common: &Common) -> Result<Exit, Failure> {
    let config = settings(common)?;
    let known: Vec<String> =
        crate::cli::commands::workflow::diagrams()?.into_iter().map(|drawn| drawn.workflow).collect();
    let checked = config.retention.check(&known);
    checked.map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    if !config.targets.is_empty() {
        let read = Targets::read(Path::new(&config.targets));
        read.map_err(|why| Failure::new(Exit::Usage, format!("configuration: targets: {why}")))?;
    }
    Book::open(&config.access.policies)
        .map_err(|why| Failure::new(Exit::Usage, format!("configuration: {why}")))?;
    match common.output {
        format @ (Format::Json | Format::Yaml) => output::one(format, &json!(config))?,
        Format::Table => output::say(&toml::to_string(&config).map_err(Failure::other)?)?,
    }
    Ok(Exit::Done)
}

pub(super) fn gpus(common: &Common) -> Result<Exit, Failure> {
    match GpuFacts::read() {
        Ok(facts) => output::one(common.output, &json!(facts))?,
        // A machine without GPUs is no failure.
        Err(none) => match common.output {
            format @ (Format::Json | Format::Yaml) => {
                output::one(format, &json!({ "available": false, "why": none.to_string() }))?
            }
            Format::Table => output::say(&format!("{none}\n"))?,
        },
    }
    Ok(Exit::Done)
}
